"""Integer arithmetic that proofs need: bounded factorisation, congruences, integer roots of one
unknown.

factors(768)               ->  {2: 8, 3: 1}
solve_congruence(6, 4, 8)  ->  (2, 4)          6*x = 4 (mod 8)  where x = 2 (mod 4)
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, isqrt

MAX_TRIAL = 4_096
MAX_PRIME = 3_317_044_064_679_887_385_961_981
_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)


def factors(number: int) -> dict[int, int] | None:
    """Returns the prime factors of a positive number with their exponents.

    None where a part is left whose factors are not known. Do not change the result.

    >>> factors(768), factors(1), factors((10**9 + 7) * (10**9 + 9))
    ({2: 8, 3: 1}, {}, None)
    """
    found, rest = split_factors(number)
    return found if rest == 1 else None


@lru_cache(maxsize=1024)
def split_factors(number: int) -> tuple[dict[int, int], int]:
    """Returns the prime factors that bounded trial division finds, and the part that is left.

    What is left is 1 or has only factors above MAX_TRIAL. Do not change the result.

    >>> split_factors(12 * (10**9 + 7)), split_factors(6 * (10**9 + 7) * (10**9 + 9))[0]
    (({2: 2, 3: 1, 1000000007: 1}, 1), {2: 1, 3: 1})
    """
    found: dict[int, int] = {}
    rest, trial = number, 2
    while trial <= MAX_TRIAL and trial * trial <= rest:
        while rest % trial == 0:
            found[trial] = found.get(trial, 0) + 1
            rest //= trial
        trial += 1 if trial == 2 else 2
    if rest > 1 and (rest < MAX_TRIAL * MAX_TRIAL or is_prime(rest)):
        found[rest] = found.get(rest, 0) + 1
        rest = 1
    return found, rest


def is_prime(number: int) -> bool:
    """Whether an odd number is a prime for certain: the test of Miller and Rabin with the bases
    that decide below MAX_PRIME (Sorenson and Webster, 2015); False above it.

    >>> is_prime(2**61 - 1), is_prime((10**9 + 7) * (10**9 + 9)), is_prime(2**89 - 1)
    (True, False, False)
    """
    if number >= MAX_PRIME:
        return False
    twos = (number - 1 & 1 - number).bit_length() - 1
    odd = number - 1 >> twos
    for base in _BASES:
        if number == base:
            return True
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def prime_powers(number: int) -> list[tuple[int, int]] | None:
    """Returns the prime powers (p, e), least first; None where they are not known."""
    found = factors(number)
    return None if found is None else sorted(found.items())


def solve_congruence(a: int, b: int, modulus: int) -> tuple[int, int] | None:
    """Returns (r, m): ``a*x = b (mod modulus)`` where ``x = r (mod m)``; None: nowhere.

    >>> solve_congruence(3, 1, 7), solve_congruence(2, 1, 4)
    ((5, 7), None)
    """
    common = gcd(a, modulus)
    if b % common:
        return None
    m = modulus // common
    return (b // common * pow(a // common, -1, m) % m if m > 1 else 0), m


def join_congruences(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int] | None:
    """Returns the (r, m) of both congruences (Chinese remainders); None where they clash.

    >>> join_congruences((1, 4), (3, 6)), join_congruences((1, 4), (0, 6))
    ((9, 12), None)
    """
    (r, m), (s, n) = a, b
    step = solve_congruence(m, s - r, n)
    return None if step is None else (r + m * step[0], m * step[1])


def integer_root(number: int, degree: int) -> int:
    """Returns the largest r with r**degree <= number, for number >= 0."""
    if degree == 2:
        return isqrt(number)
    low, high = 0, 1 << (number.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= number:
            low = middle
        else:
            high = middle - 1
    return low


def divisors(number: int, limit: int = 512) -> list[int] | None:
    """Returns the divisors, ascending; None where they are too many or not known.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    powers = prime_powers(number)
    if powers is None:
        return None
    found = [1]
    for prime, exponent in powers:
        found = [d * prime**e for d in found for e in range(exponent + 1)]
        if len(found) > limit:
            return None
    return sorted(found)
