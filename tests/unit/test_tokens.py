"""tokens.py: what a token file may hold, and which token a call carries."""

from hashlib import sha256
from pathlib import Path

import pytest
from statekeep_server.config import ConfigError
from statekeep_server.tokens import MOST, Right, Token, Tokens, digest_of, parse, secret

ONE, TWO = "0123456789abcdef-one", "0123456789abcdef-two"
START = f"[[token]]\nname = 'a'\nvalue = '{ONE}'\n"


def test_a_token_stands_as_itself_or_as_its_digest() -> None:
    by_value = parse(f"{START}rights = 'read'".encode())
    digest = sha256(ONE.encode()).hexdigest()
    for written in (digest, digest.upper()):
        assert parse(f"[[token]]\nname = 'a'\nsha256 = '{written}'\nrights = 'read'".encode()) == by_value
    assert by_value == [Token("a", digest_of(ONE), Right.READ)]
    assert ONE not in repr(by_value)


def test_without_a_prefix_a_token_may_touch_everything_and_with_one_only_what_has_a_prefix() -> None:
    (free,) = parse(f"{START}rights = 'write'".encode())
    assert free.everywhere
    (bounded,) = parse(f"{START}rights = 'write'\nscopes = 'app/'\nthreads = ''".encode())
    assert (bounded.scopes, bounded.threads, bounded.instances) == ("app/", "", None)
    assert not bounded.everywhere


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", r"holds no token.*\[\[token\]\]"),
        ("token = 1", "holds no token"),
        ("token = []", "holds no token"),
        ("token = [1]", "holds no token"),
        ("[token]\nname = 'a'", "holds no token"),
        ("[[tokens]]", "unknown key; did you mean token"),
        ("[[token]", "is not TOML"),
        ("a = " + "[" * 100_000, "is not TOML"),
        ("[[token]]", "token 1: name is missing"),
        ("[[token]]\nname = ''", "token 1: name"),
        ("[[token]]\nname = 5", "token 1: name"),
        ("[[token]]\nname = 'a'", r"token 1 \(a\): rights"),
        ("[[token]]\nname = 'a'\nrights = 'read'", "give one of the two"),
        (f"{START}rights = 'all'", 'rights must be "read" or "write"'),
        (f"{START}rights = ['read']", "rights must be"),
        (f"{START}rights = 'read'\nscope = 'x'", "unknown key; did you mean scopes"),
        (f"{START}rights = 'read'\nzzz = 'x'", "there are name, value, sha256, rights, scopes, threads, instances"),
        (f"{START}rights = 'read'\nsha256 = '00'", "give one of the two"),
        ("[[token]]\nname = 'a'\nrights = 'read'\nsha256 = '00'", "64 hex digits"),
        ("[[token]]\nname = 'a'\nrights = 'read'\nvalue = 'short'", "at least 16"),
        ("[[token]]\nname = 'a'\nrights = 'read'\nvalue = 5", "at least 16"),
        (f"{START}rights = 'read'\nscopes = 'a b'", "scopes must be a prefix"),
        (f"{START}rights = 'read'\nscopes = 'é'", "scopes must be a prefix"),
        (f"{START}rights = 'read'\nthreads = ' a'", "threads must be a prefix"),
        (f"{START}rights = 'read'\nthreads = ['a']", "threads must be a prefix"),
        (f'{START}rights = "read"\ninstances = "a\\u0000"', "instances must be a prefix"),
        (f"{START}rights = 'read'\n" * 2, "two tokens are named a"),
        (f"{START}rights = 'read'\n" + START.replace("'a'", "'b'") + "rights = 'read'", "a and b are the same token"),
    ],
)
def test_a_file_that_is_not_as_it_must_be_is_refused_without_telling_a_token(content: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as refusal:
        parse(content.encode())
    assert ONE not in str(refusal.value)


def test_a_file_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        parse(b"\xff\xfe")


def test_too_many_tokens_are_refused() -> None:
    digests = (sha256(str(number).encode()).hexdigest() for number in range(MOST + 1))
    many = [f"[[token]]\nname = '{n}'\nsha256 = '{digest}'\nrights = 'read'\n" for n, digest in enumerate(digests)]
    assert len(parse("".join(many[:MOST]).encode())) == MOST
    with pytest.raises(ValueError, match=f"at most {MOST}"):
        parse("".join(many).encode())


@pytest.mark.parametrize(
    "bad", ["", " ", "fifteen-letters", "a blank in the middle", "ünïcödé-is-not-taken", "x" * 20 + "\x00"]
)
def test_a_bad_token_is_refused_and_not_told(bad: str) -> None:
    with pytest.raises(ValueError, match="at least 16 printable") as refusal:
        secret(bad)
    assert not bad.strip() or bad not in str(refusal.value)


def test_the_white_space_around_a_token_is_no_part_of_it() -> None:
    assert secret(f" {ONE}\n") == ONE


def test_the_token_that_is_carried_is_found_wherever_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text("".join(f"[[token]]\nname='{n}'\nvalue='{ONE}{n}'\nrights='read'\n" for n in range(5)))
    tokens = Tokens(file, TWO)
    for number in range(5):
        found = tokens.find(f"{ONE}{number}")
        assert found
        assert found.name == str(number)
    own = tokens.find(TWO)
    assert own == Token("STATEKEEP_TOKEN", digest_of(TWO))
    assert own.everywhere
    assert [tokens.find(wrong) for wrong in (ONE, "", TWO[:-1], TWO + "x", "é")] == [None] * 5


def test_what_changed_is_told_once_and_what_stayed_is_not_ended(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(f"{START}rights = 'read'")
    tokens = Tokens(file, TWO)
    assert list(tokens.reload()) == []
    file.write_text(f"{START}rights = 'write'\n[[token]]\nname='b'\nvalue='{ONE}b'\nrights='read'")
    assert list(tokens.reload()) == [Token("a", digest_of(ONE), Right.READ)]
    assert list(tokens.reload()) == []
    file.write_text("broken")
    assert list(tokens.reload()) == []
    assert tokens.find(ONE) == Token("a", digest_of(ONE), Right.WRITE)
    assert (tokens.reloads, tokens.failures) == (1, 1)


def test_a_file_that_could_not_be_read_is_read_again_and_that_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(f"{START}rights = 'write'")
    tokens = Tokens(file)
    file.write_text("[[token]]\nname = 'b'\nrights = 'read'\nvalue = '" + TWO + "'")
    with monkeypatch.context() as patched:

        def too_many(path: Path) -> bytes:
            raise OSError(24, "Too many open files")

        patched.setattr(Path, "read_bytes", too_many)
        for _ in range(3):
            assert list(tokens.reload()) == []
        assert tokens.find(ONE)
    assert [token.name for token in tokens.reload()] == ["a"]
    assert (tokens.find(ONE), tokens.reloads) == (None, 1)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        f"the tokens stay as they were, and are read again: --token-file: {file} cannot be read: Too many open files"
    ]


def test_a_token_that_stands_where_a_key_should_is_not_shown() -> None:
    with pytest.raises(ValueError, match="has an unknown key") as refusal:
        parse(b'"s3cr3t-0123456789abcdef" = "agent"')
    assert "s3cr3t" not in str(refusal.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--token-file: .*none\.toml cannot be read"):
        Tokens(tmp_path / "none.toml")
