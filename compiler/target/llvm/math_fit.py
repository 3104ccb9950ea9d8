# SPDX-License-Identifier: Apache-2.0
"""Prints the tables of math.c or trigonometry.c: polynomials that interpolate at Chebyshev nodes, computed with mpmath.

Run by hand (python3 math_fit.py math > math_tables.def; python3 math_fit.py trigonometry > trigonometry_tables.def); neither
the build nor the tests need it.
"""
import sys

from mpmath import (asin, atan, cos, erf, erfc, exp, floor, frexp, ldexp, log, lu_solve, matrix, mp, mpf, nint, pi, polyval, sin, sqrt,
                    tan, tanh)

mp.dps = 80


def fit(function, a, b, degree):
    """Coefficients, constant first, and the largest error on [a, b]."""
    n = degree + 1
    nodes = [(a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    system = matrix(n, n)
    for i, x in enumerate(nodes):
        for j in range(n):
            system[i, j] = x**j
    c = list(lu_solve(system, matrix([function(x) for x in nodes])))
    grid = [a + (b - a) * mpf(i) / 999 for i in range(1000)]
    return c, max(abs(function(x) - polyval(c[::-1], x)) for x in grid)


def minimax(function, a, degree):
    """Coefficients of q, constant first, for the least relative error of 1 + x + x^2 q(x) on
    [-a, a] (Remez' exchange), and that error."""
    n = degree + 2
    grid = [a * (mpf(i) / 500 - 1) for i in range(1001)]
    points = [a * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in reversed(range(n))]
    for _ in range(20):
        system, right = matrix(n, n), []
        for i, x in enumerate(points):
            for j in range(degree + 1):
                system[i, j] = x ** (j + 2) / function(x)
            system[i, n - 1] = (-1) ** i
            right.append(1 - (1 + x) / function(x))
        c = list(lu_solve(system, matrix(right)))[: degree + 1]
        errors = [(1 + x + x**2 * polyval(c[::-1], x)) / function(x) - 1 for x in grid]
        points = extrema(grid, errors, n)
    return c, max(abs(e) for e in errors)


def extrema(grid, errors, count):
    """The points of largest error between its sign changes; the `count` consecutive ones that matter."""
    found = []
    for i, error in enumerate(errors):
        if found and (errors[found[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    while len(found) > count:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return [grid[i] for i in found]


def rounded(x, bits):
    m, e = frexp(x)
    return ldexp(nint(ldexp(m, bits)), e - bits)


def row(name, bits, values):
    text = ", ".join(float(rounded(v, bits)).hex() for v in values)
    print(f"X({name}, {len(values)}, {text})")


def limit_at_0(function):
    return lambda x: function(x if abs(x) > mpf(10) ** -20 else mpf(10) ** -20)


def print_head(more=""):
    print("/* SPDX-License-Identifier: Apache-2.0")
    print(" *")
    print(f" * X(NAME, count, coefficients from the constant upwards){more}; written by math_fit.py. */")


def fit_rows(rows):
    for name, bits, function, a, b, degree in rows:
        coefficients, error = fit(function, a, b, degree)
        print(name, "error 2 ^", mp.nstr(mp.log(error, 2), 5), file=sys.stderr)
        row(name, bits, coefficients)


def print_parts(name, x, sizes):
    """x as a sum of numbers of so many bits."""
    parts = []
    for bits in sizes:
        parts.append(rounded(x - sum(parts), bits))
    row(name, 53, parts)


def print_trigonometry():
    """The functions of f32 are computed in f64, with shorter polynomials."""
    mp.dps = 500
    quarter = (pi / 4 * mpf("1.001")) ** 2
    eighth = tan(pi / 8 * mpf("1.001")) ** 2
    sin_tail = limit_at_0(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z)
    cos_tail = limit_at_0(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2)
    asin_tail = limit_at_0(lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z)
    atan_tail = limit_at_0(lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z)
    print_head(";\n * WORDS(NAME, count, words of 64 bits)")
    fit_rows((
        ("SIN_F32", 53, sin_tail, mpf(0), quarter, 3),
        ("SIN_F64", 53, sin_tail, mpf(0), quarter, 6),
        ("COS_F32", 53, cos_tail, mpf(0), quarter, 3),
        ("COS_F64", 53, cos_tail, mpf(0), quarter, 5),
        ("ASIN_F32", 53, asin_tail, mpf(0), mpf("0.25"), 6),
        ("ASIN_F64", 53, asin_tail, mpf(0), mpf("0.25"), 12),
        ("ATAN_F32", 53, atan_tail, mpf(0), eighth, 5),
        ("ATAN_F64", 53, atan_tail, mpf(0), eighth, 10),
    ))
    print_parts("HALF_PI_SHORT", pi / 2, (33, 33, 33, 53))  # products of the first three with 20 bits are exact
    print_parts("HALF_PI", pi / 2, (53, 53))
    # A word of zeros, then the bits of 2 / pi behind the binary point.
    digits = int(floor(ldexp(2 / pi, 64 * 19)))
    words = [0] + [digits >> 64 * (18 - i) & (1 << 64) - 1 for i in range(19)]
    print(f"WORDS(TWO_OVER_PI, {len(words)}, " + ", ".join(f"0x{word:016x}" for word in words) + ")")


def print_math():
    half = log(2) / 2 * mpf("1.0001")
    low, high = sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1
    z_log = (high / (2 + high)) ** 2 * mpf("1.001")
    z_tanh = mpf("0.625") ** 2
    exp_tail = limit_at_0(lambda r: (exp(r) - 1 - r) / r**2)
    log_tail = limit_at_0(lambda f: (log(1 + f) - f + f**2 / 2) / f**3)
    atanh_tail = limit_at_0(lambda z: log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) - 2)
    atanh_tail_z = lambda z: atanh_tail(z) / (z if abs(z) > mpf(10) ** -20 else mpf(10) ** -20)
    pow_tail = limit_at_0(lambda z: (atanh_tail(z) / z - mpf(2) / 3) / z)
    tanh_tail = limit_at_0(lambda z: (tanh(sqrt(z)) / sqrt(z) - 1) / z)
    erf_tail = limit_at_0(lambda z: erf(sqrt(z)) / sqrt(z) - 1)
    z_erf = mpf("0.84375") ** 2
    # (1 + 2 z) exp(z^2) erfc(z) by u = (z - 3.75) / (z + 3.75)
    z_of = lambda u: mpf("3.75") * (1 + u) / (1 - u)
    u_of = lambda z: (mpf(z) - mpf("3.75")) / (mpf(z) + mpf("3.75"))
    erfc_scaled = lambda u: (1 + 2 * z_of(u)) * exp(z_of(u) ** 2) * erfc(z_of(u))
    print_head()
    # exp(a^2 / 2) erfc(a / sqrt 2) / 2 over 1 - u, by u = (a - middle) / (a + middle)
    a_of = lambda u, middle: middle * (1 + u) / (1 - u)
    share = lambda a: exp(a**2 / 2) * erfc(a / sqrt(mpf(2))) / 2
    share_by = lambda middle: lambda u: share(a_of(u, mpf(middle))) / (1 - u)
    end = lambda a, middle: (mpf(a) - mpf(middle)) / (mpf(a) + mpf(middle))
    fit_rows((
        ("EXP_F32", 24, exp_tail, -half, half, 5),
        ("EXP_FMA_F32", 24, exp_tail, -half, half, 4),
        ("EXP_F64", 53, exp_tail, -half, half, 10),
        ("LOG_F32", 24, log_tail, low, high, 8),
        ("LOG_F64", 53, atanh_tail_z, mpf(0), z_log, 7),
        ("POW_F64", 53, pow_tail, mpf(0), z_log, 8),
        ("TANH_F32", 24, tanh_tail, mpf(0), z_tanh, 5),
        ("TANH_F64", 53, tanh_tail, mpf(0), z_tanh, 12),
        ("ERF_F32", 24, erf_tail, mpf(0), z_erf, 6),
        ("ERF_F64", 53, erf_tail, mpf(0), z_erf, 11),
        ("ERFC_F32", 24, erfc_scaled, mpf(-1), u_of("10.2"), 11),
        ("ERFC_F64", 53, erfc_scaled, mpf(-1), u_of("27.4"), 23),
        ("GELU_F32", 24, share_by(3), mpf(-1), end("14.5", 3), 10),
        ("GELU_F64", 53, share_by(5), mpf(-1), end("38.8", 5), 22),
    ))
    coefficients, error = minimax(exp, half, 3)
    print("EXP_SHIFTED_F32 error 2 ^", mp.nstr(mp.log(error, 2), 5), file=sys.stderr)
    row("EXP_SHIFTED_F32", 24, coefficients)
    # 2 sqrt(2 / pi) and 0.044715 times that, in two parts each.
    slope = 2 * sqrt(2 / mp.pi)
    for name, bits in (("GELU_TANH_F32", 24), ("GELU_TANH_F64", 53)):
        parts = [(rounded(x, bits), x - rounded(x, bits)) for x in (slope, slope * mpf("0.044715"))]
        row(name, bits, [part for pair in parts for part in pair])
    # ln 2 in two parts: the high part times an exponent is exact.
    for name, bits, high_bits in (("LN2_F32", 24, 14), ("LN2_F64", 53, 41)):
        part = rounded(log(2), high_bits)
        row(name, bits, [part, log(2) - part])


{"math": print_math, "trigonometry": print_trigonometry}[sys.argv[1]]()
