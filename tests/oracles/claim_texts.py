"""Random claims and facts, as text: the kinds that shapes give, and many that they do not."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = ("a", "b", "c")
COMPARISONS = ("==", "==", "!=", "<=", "<", ">=", ">")
small = st.integers(1, 6)


@st.composite
def polynomials(draw: st.DrawFn, degree: int = 4, terms: int = 3) -> str:
    text = ""
    for i in range(draw(st.integers(1, terms))):
        names = draw(st.lists(st.sampled_from(NAMES), max_size=degree))
        text += (draw(st.sampled_from((" + ", " - "))) if i else "") + "*".join(
            [str(draw(small)), *names]
        )
    return text


@st.composite
def lengths(draw: st.DrawFn, depth: int = 2) -> str:
    """Polynomials with floors, remainders, minima and maxima around and between them."""
    kind = draw(st.integers(0, 9)) if depth else 0
    if kind <= 3:
        return draw(polynomials())
    inner = draw(lengths(depth - 1))
    match kind:
        case 4 | 5:
            return f"({inner})//{draw(divisors())}"
        case 6 | 7:
            return f"({inner})%{draw(divisors())}"
        case 8:
            name = draw(st.sampled_from(("min", "max")))
            return f"{name}({inner}, {draw(lengths(depth - 1))})"
        case _:
            return f"({inner})*({draw(polynomials(1, 2))}) - {draw(small)}"


@st.composite
def divisors(draw: st.DrawFn) -> str:
    number, name = draw(st.integers(2, 9)), draw(st.sampled_from(NAMES))
    return draw(st.sampled_from((str(number), str(number), name, f"(-{number})", f"({name} - 2)")))


@st.composite
def claims(draw: st.DrawFn) -> str:
    comparison = draw(st.sampled_from(COMPARISONS))
    if draw(st.integers(0, 2)) == 0:
        divisor = draw(st.one_of(st.integers(2, 16).map(str), st.sampled_from(NAMES)))
        return f"({draw(polynomials())}) % {divisor} == {draw(st.sampled_from((0, 0, 0, 1, 2)))}"
    return f"{draw(lengths())} {comparison} {draw(lengths(1))}"


@st.composite
def identities(draw: st.DrawFn) -> str:
    """Claims that are true, whatever is filled in."""
    p, q, x = draw(polynomials(2, 2)), draw(polynomials(1, 2)), draw(st.sampled_from(NAMES))
    m, n = draw(st.integers(2, 8)), draw(st.integers(2, 4))
    return draw(
        st.sampled_from(
            (
                f"({p})%{m} == ({p}) - {m}*(({p})//{m})",
                f"(({p}) + ({q})*{m})//{m} == ({p})//{m} + {q}",
                f"(({p})//{m})//{n} == ({p})//{m * n}",
                f"(({p})*{x})//{x} == {p}",
                f"(({p})*{x})%{x} == 0",
                f"max({p}, {q}) + min({p}, {q}) == {p} + {q}",
                f"max(({p}) + {m}, ({q}) + {m}) == max({p}, {q}) + {m}",
                f"min({m}*({p}), {m}*({q})) == {m}*min({p}, {q})",
                f"max({p}, {q}) >= {q}",
                f"({p})%{m} <= {m - 1}",
                f"({p})%{x} < {x}",
                f"(({p})%{m * n})%{m} == ({p})%{m}",
                f"ceildiv({p}, {m}) == (({p}) + {m - 1})//{m}",
                f"ceildiv({p}, {m})*{m} >= {p}",
                f"({p})//{m}*{m} <= {p}",
                f"({p})*({p}) + ({q})*({q}) >= 2*({p})*({q})",
                f"({x}*{x}*{x} - {x})%6 == 0",
                f"{x}*{x}%4 <= 1",
            )
        )
    )


@st.composite
def facts(draw: st.DrawFn) -> str:
    x, y = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
    m, r = draw(st.integers(2, 12)), draw(st.integers(0, 11))
    comparison = draw(st.sampled_from(("<=", "<", ">=", ">")))
    return draw(
        st.one_of(
            st.just(f"{x} % {m} == {r % m}"),
            st.just(f"{x} {comparison} {r + 1}"),
            st.just(f"{x} % {y} == 0"),
            st.just(f"{x} != {y}" if x != y else f"{x} != {m}"),
            st.just(f"{x}*{y} == {m * (r + 1)}"),
            polynomials(1, 2).map(lambda p: f"{x} {comparison} {p}"),
            polynomials(2, 2).flatmap(lambda p: polynomials(2, 2).map(lambda q: f"{p} == {q}")),
            polynomials(2, 2).map(lambda p: f"({p}) % {m} == {r % m}"),
            lengths(1).flatmap(lambda p: lengths(1).map(lambda q: f"{p} {comparison} {q}")),
        )
    )
