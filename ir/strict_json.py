"""JSON as RFC 8259 means it, from text that anybody may have written.

Python's reader takes more than JSON: NaN, the last of two equal keys, other encodings, brackets
until the stack is full. Here all of these are errors with a code and a reason.

    read_json(b'{"claim": "n > 0"}')              {"claim": "n > 0"}
    read_json(b'{"claim": 1, "claim": 2}')        UnreadableJson: duplicate-key
    read_json("[[[[[...")                         UnreadableJson: too-deep
    require_shallow([[[[...]]]])                  UnreadableJson: too-deep
"""

from __future__ import annotations

import re
from json import JSONDecodeError, JSONDecoder, dumps
from math import isfinite
from typing import Any, NoReturn

MAX_DEPTH = 64
MAX_DIGITS = 100
_SHOWN = 40
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class UnreadableJson(ValueError):
    """Bytes that are no JSON, or JSON beyond the limits. ``code`` is kebab-case and stable."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def read_json(body: bytes | str, max_depth: int = MAX_DEPTH) -> Any:
    """Returns the value that the text says; bytes are UTF-8. Raises UnreadableJson.

    max_depth: how deeply arrays and objects may nest. Time and memory grow with the length of the
    body and with nothing else.

    >>> read_json(b'{"inputs": ["8*s, k", [2, null]]}')
    {'inputs': ['8*s, k', [2, None]]}
    """
    try:
        body = body.encode() if isinstance(body, str) else bytes(body)
        if is_deeper(body, max_depth):
            raise _too_deep(max_depth)
        text = body.decode()
        value = _DECODER.decode(text)
        if "\\u" in text:
            dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
        raise UnreadableJson("not-utf-8", reason) from None
    except UnicodeEncodeError:
        reason = "half of a surrogate pair stands alone"
        raise UnreadableJson("not-unicode", reason) from None
    except JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        reason = f"{error.msg[:1].lower()}{error.msg[1:]} ({place})"
        raise UnreadableJson("not-json", reason) from None
    return value


def require_shallow(value: Any, max_depth: int = MAX_DEPTH) -> None:
    """Raises UnreadableJson where a value nests deeper than JSON that is read here.

    >>> require_shallow({"args": [[1, 2], {"dim": "8*s"}]})
    """
    todo: list[tuple[Any, int]] = [(value, 0)]
    while todo:
        item, depth = todo.pop()
        if isinstance(item, dict | list | tuple):
            if depth == max_depth:
                raise _too_deep(max_depth)
            inner = item.values() if isinstance(item, dict) else item
            todo.extend([(each, depth + 1) for each in inner])


def _too_deep(limit: int) -> UnreadableJson:
    return UnreadableJson("too-deep", f"arrays and objects nest more than {limit} deep")


def is_deeper(body: bytes, limit: int) -> bool:
    """Says whether arrays and objects nest more than ``limit`` deep, without reading them.

    >>> is_deeper(b'[["[[["]]', 2), is_deeper(b"[[[]]]", 2)
    (False, True)
    """
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    brackets = _STRING.sub(b"", body).translate(_BRACKETS, _NO_BRACKETS)
    for _ in range(limit):  # each round takes the innermost pairs away
        before = len(brackets)
        brackets = brackets.replace(b"[]", b"")
        if len(brackets) == before:
            break
    # What is left now is too deep, or not balanced, which the reader will say.
    return b"[]" in brackets or brackets.count(b"[") > limit


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        reason = f"the key {twice[:_SHOWN]!a} stands twice in an object"
        raise UnreadableJson("duplicate-key", reason)
    return found


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS + digits.startswith("-"):
        reason = f"a number has {len(digits)} digits; at most {MAX_DIGITS} are read"
        raise UnreadableJson("too-many-digits", reason)
    return int(digits)


def _float(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise UnreadableJson("number-too-large", f"{text[:_SHOWN]} is too large for a number")
    return number


def _refuse(name: str) -> NoReturn:
    raise UnreadableJson("not-json", f"{name} is no JSON")


_DECODER = JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_float, parse_constant=_refuse
)
