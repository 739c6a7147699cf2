package dev.statekeep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class ExampleTest {
  private static final Path EXAMPLE = Path.of("examples", "Quickstart.java");
  private static final Pattern BLOCK = Pattern.compile("(?s)```java\n(.*?)```");

  @Test
  void theReadmeShowsTheExampleAsItIs() throws Exception {
    Matcher block = BLOCK.matcher(Files.readString(Path.of("README.md")));

    assertTrue(block.find(), "the README has no Java in it");
    assertEquals(Files.readString(EXAMPLE), block.group(1));
  }

  @Test
  void theReadmeOfTheProjectShowsLinesOfTheExample() throws Exception {
    Matcher block = BLOCK.matcher(Files.readString(Path.of("..", "..", "README.md")));
    String example = Files.readString(EXAMPLE).replaceAll("(?m)^ +", "");

    assertTrue(block.find(), "the project's README has no Java in it");
    String shown = block.group(1).replaceAll("(?m)^ +", "");
    assertTrue(example.contains(shown), "not lines of the example: " + shown);
  }

  @Test
  void theExampleRuns() throws Exception {
    try (StatekeepServer server = StatekeepServer.start()) {
      String java =
          System.getProperty("java.home") + File.separator + "bin" + File.separator + "java";
      ProcessBuilder builder =
          new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), "Quickstart")
              .redirectError(ProcessBuilder.Redirect.INHERIT);
      builder.environment().put("STATEKEEP_ADDRESS", server.address());
      Process process = builder.start();
      String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);

      assertTrue(process.waitFor(30, TimeUnit.SECONDS));
      assertEquals(0, process.exitValue());
      assertEquals("Ada\n1 hello\n", output);
    }
  }
}
