"""config.py: where a setting comes from, and which are refused."""

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from statekeep_server.addresses import is_local
from statekeep_server.config import ConfigError, Settings, choose, load, reference, seconds, size, variable
from statekeep_server.core.journal import Limits
from statekeep_server.machine import memory_limit
from statekeep_server.serve import limits_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "statekeep.toml"


def test_without_anything_the_defaults_are_in_force() -> None:
    settings = load({}, {}, None)
    assert settings == Settings()
    assert settings.listen == ("127.0.0.1:50051",)
    assert settings.store == "memory:"
    assert settings.scratch_idle_ttl == 3600


def test_a_flag_wins_over_the_environment_the_environment_over_the_file_and_that_over_the_default(file: Path) -> None:
    file.write_text('grace = 3\nlisten = ["localhost:3"]\nscratch_idle_ttl = "3m"')
    environment = {"STATEKEEP_GRACE": "2", "STATEKEEP_LISTEN": "localhost:2"}
    settings = load({"grace": "1", "listen": None, "store": None}, environment, file)
    assert settings == Settings(grace=1.0, listen=("localhost:2",), scratch_idle_ttl=180.0, store="memory:")


@pytest.mark.parametrize("name", ["grace", "scratch_idle_ttl"])
def test_every_setting_is_read_from_each_place(file: Path, name: str) -> None:
    file.write_text(f"{name} = 7")
    assert getattr(load({name: "7"}, {}, None), name) == 7
    assert getattr(load({}, {f"STATEKEEP_{name.upper()}": "7"}, None), name) == 7
    assert getattr(load({}, {}, file), name) == 7


def test_several_addresses_are_taken_from_each_place(file: Path) -> None:
    file.write_text('listen = ["[::1]:0", "unix:/run/x.sock"]')
    expected = ("[::1]:0", "unix:/run/x.sock")
    assert load({"listen": list(expected)}, {}, None).listen == expected
    assert load({}, {"STATEKEEP_LISTEN": "[::1]:0, unix:/run/x.sock"}, None).listen == expected
    assert load({}, {}, file).listen == expected


def test_an_unknown_variable_of_the_environment_is_passed_over() -> None:
    of_a_platform = {"STATEKEEP_SERVICE_HOST": "10.0.0.1", "STATEKEEP_PORT": "tcp://10.0.0.1:50051", "GRACE": "x"}
    of_a_client = {"STATEKEEP_ADDRESS": "10.0.0.1:50051", "STATEKEEP_TLS_CA": "ca.pem"}
    assert load({}, of_a_platform | of_a_client, None) == Settings()


@pytest.mark.parametrize(("name", "nearest"), [("LISTN", "LISTEN"), ("SCRATCH_TTL", "SCRATCH_IDLE_TTL")])
def test_a_variable_that_is_nearly_a_setting_is_refused_with_its_name(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"STATEKEEP_{name}; did you mean STATEKEEP_{nearest}"):
        load({}, {f"STATEKEEP_{name}": "1"}, None)


def test_the_file_may_be_named_in_the_environment_and_a_flag_names_another(file: Path, tmp_path: Path) -> None:
    file.write_text("grace = 1")
    other = tmp_path / "other.toml"
    other.write_text("grace = 2")
    environment = {"STATEKEEP_CONFIG": str(file)}
    assert load({}, environment, None).grace == 1
    assert load({}, environment, other).grace == 2
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read"):
        load({}, {"STATEKEEP_CONFIG": str(tmp_path / "none.toml")}, None)


def test_every_setting_in_force_says_where_it_came_from(file: Path) -> None:
    file.write_text("grace = 3")
    chosen = choose({"store": "sqlite:x.db"}, {"STATEKEEP_LISTEN": "[::1]:0"}, file)
    assert [one.name for one in chosen] == [setting.name for setting in fields(Settings)]
    sources = {one.name: one.source for one in chosen}
    assert sources["store"] == "--store"
    assert sources["listen"] == "STATEKEEP_LISTEN"
    assert sources["grace"] == f"{file}: grace"
    assert sources["scratch_idle_ttl"] == "default"


def test_what_is_in_force_is_shown_as_a_file_that_sets_the_same(file: Path) -> None:
    flags = {"listen": ["[::1]:0", 'unix:/run/a "b".sock'], "grace": "1.5s"}
    file.write_text("\n".join(one.line() for one in choose(flags, {}, None)))
    assert load({}, {}, file) == load(flags, {}, None)
    assert tomllib.loads(file.read_text())["grace"] == 1.5


def test_operations_documents_every_setting_as_it_is_declared() -> None:
    told = reference()
    assert all(f"`{variable(setting.name)}`" in told for setting in fields(Settings))
    documented = Path(__file__).parents[2].joinpath("docs/operations.md").read_text()
    assert told in documented, "run make docs, and commit what it changes"


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("lisen", "listen"), ("Store", "store"), ("gracee", "grace"), ("scratch-idle-ttl", "scratch_idle_ttl")],
)
def test_an_unknown_key_in_the_file_gets_the_nearest_name(file: Path, key: str, nearest: str) -> None:
    file.write_text(f"{key} = 1")
    with pytest.raises(ConfigError, match=f"{key}.*did you mean {nearest}") as refusal:
        load({}, {}, file)
    assert str(file) in str(refusal.value)


def test_an_unknown_key_that_is_near_to_none_gets_all_names(file: Path) -> None:
    file.write_text("[zzz]\ngrace = 1")
    with pytest.raises(ConfigError, match=r"zzz.*listen, store, grace, scratch_idle_ttl"):
        load({}, {}, file)


def test_an_unknown_key_is_refused_also_where_a_flag_says_it_all(file: Path) -> None:
    file.write_text("lisen = 1")
    with pytest.raises(ConfigError):
        load({"listen": ["localhost:0"]}, {}, file)


@pytest.mark.parametrize("content", ["grace =", "[", "grace = 1\ngrace = 2"])
def test_a_file_that_is_no_toml_is_refused_by_name(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(ConfigError, match="is not TOML") as refusal:
        load({}, {}, file)
    assert str(file) in str(refusal.value)


def test_a_file_that_is_no_text_is_refused(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError):
        load({}, {}, file)


def test_a_file_that_is_not_there_or_a_directory_is_refused_by_name(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read") as refusal:
            load({}, {}, path)
        assert str(path) in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (20, 20.0),
        (0, 0.0),
        (1.5, 1.5),
        ("20", 20.0),
        ("0", 0.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        ("2m", 120.0),
        ("1d", 86400.0),
        ("30s", 30.0),
        (" 30 s ", 30.0),
    ],
)
def test_a_duration_is_seconds_or_has_a_unit(given: str | float, expected: float) -> None:
    assert seconds(given) == expected


@pytest.mark.parametrize("given", [0.00001, 1e-7])
def test_a_small_number_of_seconds_is_taken_however_python_writes_it(given: float) -> None:
    assert seconds(given) == given


@pytest.mark.parametrize(
    "given",
    [
        "",
        " ",
        "s",
        "-1",
        -1,
        -0.5,
        "+1",
        "1w",
        "1 h 2",
        "1h30m",
        "1e3",
        "0x10",
        "1,5h",
        "nan",
        "inf",
        float("nan"),
        float("inf"),
        True,
        False,
        "\u0661",
        "1S",
        "1.",
        ".5",
        [],
        None,
        "9" * 400,
        "9" * 400 + "d",
    ],
    ids=lambda given: repr(given)[:20],
)
def test_any_other_duration_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="give "):
        seconds(given)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:0", "localhost:65535", "[::1]:50051", "0.0.0.0:1", "unix:x.sock", "unix:/a/b:c", " a:1 "]
)
def test_an_address_is_a_host_and_a_port_or_a_socket(address: str) -> None:
    assert load({"listen": [address]}, {}, None).listen == (address.strip(),)


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:", ":1", "a:65536", "a:-1", "a:x", "a:1.5", "unix:", "a: 1"]
)
def test_any_other_address_is_refused_by_the_name_of_its_flag(address: str) -> None:
    with pytest.raises(ConfigError, match="--listen"):
        load({"listen": [address]}, {}, None)


@pytest.mark.parametrize("content", ["listen = []", "listen = 5", "listen = true", "listen = [5]", 'listen = ""'])
def test_an_address_in_the_file_that_is_none_is_refused_by_its_key(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(ConfigError, match="listen: "):
        load({}, {}, file)


@pytest.mark.parametrize("store", ["", "memory", "MEMORY:", "memory:x", "postgres://db", "redis:"])
def test_an_unknown_store_is_refused_with_those_there_are(store: str) -> None:
    with pytest.raises(ConfigError, match=r"--store: there is no store .*memory:"):
        load({"store": store}, {}, None)


@pytest.mark.parametrize(
    "content", ["store = 5", "store = []", "store = {}", "grace = []", "grace = {}", "grace = true"]
)
def test_a_value_of_the_wrong_type_in_the_file_is_refused(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(ConfigError, match=content.split()[0]):
        load({}, {}, file)


def test_an_empty_variable_of_the_environment_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match="STATEKEEP_GRACE"):
        load({}, {"STATEKEEP_GRACE": ""}, None)


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Settings().grace = 1.0


def test_a_secret_is_neither_shown_nor_a_flag() -> None:
    given = {"STATEKEEP_TOKEN": "0123456789-hidden"}
    assert load({}, given, None).token == "0123456789-hidden"  # noqa: S105 (a test's)
    assert "hidden" not in repr(load({}, given, None))
    assert not any("hidden" in one.line() for one in choose({}, given, None))
    assert "--token " not in reference()


@pytest.mark.parametrize("name", ["token", "token_file", "tls_cert", "tls_key", "tls_client_ca"])
def test_an_empty_variable_never_turns_a_check_off(name: str) -> None:
    with pytest.raises(ConfigError, match=f"STATEKEEP_{name.upper()}: give "):
        load({}, {f"STATEKEEP_{name.upper()}": ""}, None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("true", True), (" Yes ", True), ("1", True), (True, True), ("false", False), ("NO", False), ("0", False)],
)
def test_insecure_takes_true_or_false(given: object, expected: bool) -> None:
    assert load({"insecure": given}, {}, None).insecure is expected


@pytest.mark.parametrize("given", ["", "maybe", 1, []])
def test_insecure_takes_nothing_else(given: object) -> None:
    with pytest.raises(ConfigError, match="--insecure: give true or false"):
        load({"insecure": given}, {}, None)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:0", "127.9.9.9:1", "[::1]:0", "localhost:0", "LOCALHOST:1", "[::ffff:127.0.0.1]:1", "unix:x"]
)
def test_an_address_that_only_this_machine_reaches_is_told(address: str) -> None:
    assert is_local(address)


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0:0", "[::]:0", "10.0.0.1:1", "[::ffff:10.0.0.1]:1", "db.example:1", "0:1", "localhost.example:1"],
)
def test_any_other_address_counts_as_within_reach_of_others(address: str) -> None:
    assert not is_local(address)


@pytest.mark.parametrize(("given", "versions"), [("0", 0), ("3", 3), (" 12 ", 12), (7, 7)])
def test_a_number_of_versions_is_taken(given: str | int, versions: int) -> None:
    assert load({"max_versions": given}, {}, None).max_versions == versions


@pytest.mark.parametrize(
    ("setting", "given", "right"),
    [
        ("max_versions", "-1", "give a whole number from 0"),
        ("max_versions", "many", "give a whole number from 0"),
        ("max_versions", "1.5", "give a whole number from 0"),
        ("max_versions", True, "give a whole number from 0"),
        ("max_versions", 2**53, "give a whole number from 0"),
        ("thread_ttl", "-1s", "give seconds"),
        ("sweep_every", "0", "give a time from 10ms to 1h"),
        ("sweep_every", "2h", "give a time from 10ms to 1h"),
    ],
)
def test_what_cannot_be_kept_to_is_refused(setting: str, given: object, right: str) -> None:
    with pytest.raises(ConfigError, match=f"--{setting.replace('_', '-')}.*{right}"):
        load({setting: given}, {}, None)


def test_probes_are_answered_on_an_address_of_the_network_only() -> None:
    assert load({"health_listen": "0.0.0.0:50052"}, {}, None).health_listen == "0.0.0.0:50052"
    assert load({"health_listen": ""}, {}, None).health_listen == ""
    with pytest.raises(ConfigError, match=r"--health-listen: give HOST:PORT"):
        load({"health_listen": "unix:/run/x.sock"}, {}, None)
    with pytest.raises(ConfigError, match=r"--health-listen: '50052' is no address"):
        load({"health_listen": "50052"}, {}, None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(0, 0), (7, 7), ("7", 7), ("1KiB", 1024), (" 2 MiB ", 2**21), ("1.5GiB", 3 * 2**29), ("1TiB", 2**40), ("9B", 9)],
)
def test_a_size_is_bytes_or_has_a_unit(given: str | int, expected: int) -> None:
    assert size(given) == expected


@pytest.mark.parametrize("given", ["", "-1", -1, "1k", "1KB", "1e3", 1.5, True, "KiB", "\u0661", None, "nan"])
def test_what_is_no_size_is_refused_and_told_what_would_be_right(given: object) -> None:
    with pytest.raises(ConfigError, match=r"--max-memory: give a number of bytes, or one with KiB"):
        load({"max_memory": "" if given is None else given}, {}, None)


LIMITS = [setting.name for setting in fields(Settings) if setting.name.startswith("max_")]


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_set_by_a_flag_and_is_in_force(name: str) -> None:
    before, after = limits_of(Settings()), limits_of(load({name: "4194305" if "request" in name else "2000"}, {}, None))
    changed = [limit.name for limit in fields(Limits) if getattr(before, limit.name) != getattr(after, limit.name)]
    assert len(changed) == 1
    assert getattr(after, changed[0]) in (2000, 4194305)


@pytest.mark.parametrize("name", sorted(set(LIMITS) - {"max_request", "max_record"}))
def test_every_limit_of_what_is_there_can_be_taken_away(name: str) -> None:
    settings = load({name: "0"}, {}, None)
    assert getattr(settings, name) == 0


@pytest.mark.parametrize(
    ("name", "given", "hint"),
    [
        ("max_request", "1MiB", "4194304 to 2147483647 bytes"),
        ("max_record", "4MiB", "1024 to 4128768 bytes"),
        ("max_record", "0", "1024 to 4128768 bytes"),
        ("max_memory", "10%", "or auto"),
        ("max_calls", "many", "give a whole number from 0"),
        ("max_followers", "-1", "give a whole number from 0"),
        ("max_scope_keys", "1.5", "give a whole number from 0"),
        ("max_stream_age", "10ms", "100ms at least"),
    ],
)
def test_a_limit_that_cannot_be_is_refused_and_told_what_would_be_right(name: str, given: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"--{name.replace('_', '-')}: .*{hint}"):
        load({name: given}, {}, None)


def test_the_limit_of_memory_follows_the_containers_unless_it_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory_limit(tmp_path) == 0
    old = tmp_path / "memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert memory_limit(tmp_path) == 0
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_limit(tmp_path) == 0
    (tmp_path / "memory.max").write_text("268435456\n")
    assert memory_limit(tmp_path) == 2**28
    monkeypatch.setattr("statekeep_server.serve.memory_limit", lambda: 2**28)
    assert limits_of(Settings()).memory == round(0.7 * 2**28)
    assert limits_of(load({"max_memory": "1GiB"}, {}, None)).memory == 2**30
    assert limits_of(load({"max_memory": "0"}, {}, None)).memory == 0


@pytest.mark.parametrize(
    ("setting", "given", "right"),
    [
        ("listen", "[::1%30]:0", "no zone"),
        ("listen", "unix:/a\0b", "no zero byte"),
        ("store", "sqlite::memory:", "give memory:"),
        ("traces", "otlp://user:hidden@host:4317", "a user or password is not taken"),
    ],
)
def test_what_would_mean_another_thing_is_refused_and_never_shows_a_password(
    setting: str, given: str, right: str
) -> None:
    with pytest.raises(ConfigError, match=right) as refusal:
        load({setting: [given] if setting == "listen" else given}, {}, None)
    assert "hidden" not in str(refusal.value)
