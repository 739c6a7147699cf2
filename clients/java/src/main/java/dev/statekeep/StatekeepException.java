package dev.statekeep;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * A call failed. There is a subclass for each status code, to be caught, and {@link #reason()}
 * tells further apart.
 *
 * <p>Its message is the server's, in words.
 */
public class StatekeepException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final Status.Code code;
  private final String reasonName;
  private final transient Details details;

  StatekeepException(Status.Code code, String message, Details details, Throwable cause) {
    super(message, cause);
    this.code = code;
    this.reasonName = details.reason;
    this.details = details;
  }

  /**
   * The gRPC status code.
   *
   * @return the code
   */
  public Status.Code code() {
    return code;
  }

  /**
   * The server's stable name for what went wrong.
   *
   * @return the reason; {@link Reason#NONE} where gRPC itself or this client raised the error
   */
  public Reason reason() {
    return Reason.of(reasonName);
  }

  /**
   * The reason as the server wrote it, also where this client does not know it.
   *
   * @return the name; empty where there is none
   */
  public String reasonName() {
    return reasonName;
  }

  /**
   * The variable parts of the message.
   *
   * @return texts by name
   */
  public Map<String, String> metadata() {
    return details == null ? Map.of() : details.metadata;
  }

  /**
   * What is wrong with each field at fault.
   *
   * @return descriptions by the field's path, such as {@code events[2].id}
   */
  public Map<String, String> fields() {
    return details == null ? Map.of() : details.fields;
  }

  /**
   * After how long the server suggests to try again.
   *
   * @return the time; empty where it suggests none
   */
  public Optional<Duration> retryDelay() {
    return details == null ? Optional.empty() : Optional.ofNullable(details.retryDelay);
  }

  static StatekeepException of(StatusRuntimeException failure) {
    Status status = failure.getStatus();
    String message =
        status.getDescription() == null ? status.getCode().name() : status.getDescription();
    if (status.getCause() != null) {
      // Of a lost connection gRPC itself says no more than "io exception".
      Throwable origin = status.getCause();
      while (origin.getCause() != null) {
        origin = origin.getCause();
      }
      if (origin.getMessage() != null) {
        message += ": " + origin.getMessage();
      }
    }
    return of(status.getCode(), message, Details.of(failure), failure);
  }

  static StatekeepException of(Status.Code code, String message, Details details, Throwable cause) {
    return switch (code) {
      case INVALID_ARGUMENT -> new InvalidArgument(message, details, cause);
      case ABORTED -> new Conflict(message, details, cause);
      case ALREADY_EXISTS -> new AlreadyExists(message, details, cause);
      case NOT_FOUND -> new NotFound(message, details, cause);
      case OUT_OF_RANGE -> new OutOfRange(message, details, cause);
      case RESOURCE_EXHAUSTED -> new ResourceExhausted(message, details, cause);
      case UNAVAILABLE -> new Unavailable(message, details, cause);
      case FAILED_PRECONDITION -> new FailedPrecondition(message, details, cause);
      case UNAUTHENTICATED -> new Unauthenticated(message, details, cause);
      case PERMISSION_DENIED -> new PermissionDenied(message, details, cause);
      case DEADLINE_EXCEEDED -> new DeadlineExceeded(message, details, cause);
      case CANCELLED -> new Cancelled(message, details, cause);
      case UNIMPLEMENTED -> new Unimplemented(message, details, cause);
      case INTERNAL -> new Internal(message, details, cause);
      default -> new StatekeepException(code, message, details, cause);
    };
  }

  static StatekeepException closed() {
    return new Cancelled("the Statekeep client is closed", Details.NONE, null);
  }

  /** What stands in the status details beside the message. */
  static final class Details {
    static final Details NONE = new Details();

    private String reason = "";
    private Map<String, String> metadata = Map.of();
    private Map<String, String> fields = Map.of();
    private Duration retryDelay;

    private Details() {}

    static Details invalidField(String path, String description) {
      Details details = new Details();
      details.reason = Reason.INVALID_FIELD.name();
      details.fields = Map.of(path, description);
      return details;
    }

    static Details of(StatusRuntimeException failure) {
      com.google.rpc.Status status = StatusProto.fromThrowable(failure);
      Details details = new Details();
      for (Any any : status == null ? Collections.<Any>emptyList() : status.getDetailsList()) {
        details.add(any);
      }
      return details;
    }

    private void add(Any any) {
      if (any.is(ErrorInfo.class)) {
        ErrorInfo info = unpack(any, ErrorInfo.class, ErrorInfo.getDefaultInstance());
        reason = info.getReason();
        metadata = Map.copyOf(info.getMetadataMap());
      } else if (any.is(BadRequest.class)) {
        Map<String, String> found = new LinkedHashMap<>();
        unpack(any, BadRequest.class, BadRequest.getDefaultInstance())
            .getFieldViolationsList()
            .forEach(violation -> found.put(violation.getField(), violation.getDescription()));
        fields = Collections.unmodifiableMap(found);
      } else if (any.is(RetryInfo.class)) {
        RetryInfo info = unpack(any, RetryInfo.class, RetryInfo.getDefaultInstance());
        retryDelay = Messages.duration(info.getRetryDelay());
      }
    }

    private static <M extends Message> M unpack(Any any, Class<M> type, M otherwise) {
      try {
        return any.unpack(type);
      } catch (InvalidProtocolBufferException broken) {
        // A detail that cannot be read must not hide the error it belongs to.
        return otherwise;
      }
    }
  }

  /** The request itself is wrong; sending it again does not help. */
  public static final class InvalidArgument extends StatekeepException {
    private static final long serialVersionUID = 1;

    InvalidArgument(String message, Details details, Throwable cause) {
      super(Status.Code.INVALID_ARGUMENT, message, details, cause);
    }
  }

  /** Someone else was faster. Read again, and decide again. */
  public static final class Conflict extends StatekeepException {
    private static final long serialVersionUID = 1;

    Conflict(String message, Details details, Throwable cause) {
      super(Status.Code.ABORTED, message, details, cause);
    }
  }

  /** The name or id is taken. */
  public static final class AlreadyExists extends StatekeepException {
    private static final long serialVersionUID = 1;

    AlreadyExists(String message, Details details, Throwable cause) {
      super(Status.Code.ALREADY_EXISTS, message, details, cause);
    }
  }

  /** Something the request names is not there. */
  public static final class NotFound extends StatekeepException {
    private static final long serialVersionUID = 1;

    NotFound(String message, Details details, Throwable cause) {
      super(Status.Code.NOT_FOUND, message, details, cause);
    }
  }

  /** A read cannot go on after the cursor given: see the reason. */
  public static final class OutOfRange extends StatekeepException {
    private static final long serialVersionUID = 1;

    OutOfRange(String message, Details details, Throwable cause) {
      super(Status.Code.OUT_OF_RANGE, message, details, cause);
    }
  }

  /** A limit was reached. Never retried. */
  public static final class ResourceExhausted extends StatekeepException {
    private static final long serialVersionUID = 1;

    ResourceExhausted(String message, Details details, Throwable cause) {
      super(Status.Code.RESOURCE_EXHAUSTED, message, details, cause);
    }
  }

  /** The server could not be reached, or cannot answer now. The only error that is retried. */
  public static final class Unavailable extends StatekeepException {
    private static final long serialVersionUID = 1;

    Unavailable(String message, Details details, Throwable cause) {
      super(Status.Code.UNAVAILABLE, message, details, cause);
    }
  }

  /** The state of things does not allow the request. */
  public static final class FailedPrecondition extends StatekeepException {
    private static final long serialVersionUID = 1;

    FailedPrecondition(String message, Details details, Throwable cause) {
      super(Status.Code.FAILED_PRECONDITION, message, details, cause);
    }
  }

  /** The token is missing or wrong. */
  public static final class Unauthenticated extends StatekeepException {
    private static final long serialVersionUID = 1;

    Unauthenticated(String message, Details details, Throwable cause) {
      super(Status.Code.UNAUTHENTICATED, message, details, cause);
    }
  }

  /** The token does not allow the request. */
  public static final class PermissionDenied extends StatekeepException {
    private static final long serialVersionUID = 1;

    PermissionDenied(String message, Details details, Throwable cause) {
      super(Status.Code.PERMISSION_DENIED, message, details, cause);
    }
  }

  /** No answer came in time. A write may have happened all the same. */
  public static final class DeadlineExceeded extends StatekeepException {
    private static final long serialVersionUID = 1;

    DeadlineExceeded(String message, Details details, Throwable cause) {
      super(Status.Code.DEADLINE_EXCEEDED, message, details, cause);
    }
  }

  /**
   * The call was cancelled, its thread interrupted, or the client closed, before it was answered.
   */
  public static final class Cancelled extends StatekeepException {
    private static final long serialVersionUID = 1;

    Cancelled(String message, Details details, Throwable cause) {
      super(Status.Code.CANCELLED, message, details, cause);
    }
  }

  /** The server does not know the method: it is older than this client, or no Statekeep. */
  public static final class Unimplemented extends StatekeepException {
    private static final long serialVersionUID = 1;

    Unimplemented(String message, Details details, Throwable cause) {
      super(Status.Code.UNIMPLEMENTED, message, details, cause);
    }
  }

  /** The server, or gRPC, is at fault. */
  public static final class Internal extends StatekeepException {
    private static final long serialVersionUID = 1;

    Internal(String message, Details details, Throwable cause) {
      super(Status.Code.INTERNAL, message, details, cause);
    }
  }
}
