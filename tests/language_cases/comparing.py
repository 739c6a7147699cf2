"""Compares an answer with the right one, which names only what matters."""

from language_cases.files import Tree


def difference(right: Tree, got: Tree, path: str = "") -> str | None:
    """Return where and how an answer is not the right one; None where it is."""
    if right is None or got is None:
        return None if right is got else _told(path, right, got)
    if isinstance(right, dict):
        return _of_object(right, got, path)
    if isinstance(right, list):
        return _of_list(right, got, path)
    if isinstance(right, bool) or isinstance(got, bool):
        return None if right is got else _told(path, right, got)
    return None if isinstance(got, str | int) and str(right) == str(got) else _told(path, right, got)


def _of_object(right: Tree, got: Tree, path: str) -> str | None:
    if "$any" in right:
        return None
    if "$count" in right:
        count = len(got) if isinstance(got, list) else -1
        return None if count == right["$count"] else _told(f"{path}, how many", right["$count"], count)
    if "$has" in right:
        return _of_part(right["$has"], got, path)
    if not isinstance(got, dict):
        return _told(path, right, got)
    differences = (difference(item, got.get(name), f"{path}.{name}") for name, item in right.items())
    return next(filter(None, differences), None)


def _of_list(right: list[Tree], got: Tree, path: str) -> str | None:
    if not isinstance(got, list) or len(got) != len(right):
        return _told(path, right, got)
    differences = (difference(item, got[place], f"{path}.{place}") for place, item in enumerate(right))
    return next(filter(None, differences), None)


def _of_part(wanted: list[Tree], got: Tree, path: str) -> str | None:
    if not isinstance(got, list):
        return _told(path, wanted, got)
    rest = iter(got)
    for item in wanted:
        if all(difference(item, one) for one in rest):  # goes on where the last one was found
            return f"{path}: has no {_shown(item)}, or not in this order"
    return None


def _told(path: str, right: Tree, got: Tree) -> str:
    return f"{path.lstrip('.') or 'answer'}: right is {_shown(right)}, came {_shown(got)}"


def _shown(tree: Tree) -> str:
    text = ascii(tree)
    return text if len(text) <= 400 else f"{text[:400]}… ({len(text)} characters)"
