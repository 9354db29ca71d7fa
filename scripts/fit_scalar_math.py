#!/usr/bin/env python3
"""Fits the polynomials of src/compiler/scalar_{float,wide,double}*.h (needs mpmath).

Each line of FITS is a function g on an interval, a degree and a weight; the largest weight * |P - g|
is made as small as it can be (Remez). Prints the coefficients, highest degree first, and that error
as a power of two. Arguments: names of fits; none means all. `two_over_pi` prints the table of
two_over_pi.h.
"""
import math
import sys

import mpmath as mp

mp.mp.dps = 50


def remez(g, lo, hi, degree, weight, grid=600, rounds=12):
    n = degree + 2
    xs = [lo + (hi - lo) * (1 - mp.cos(mp.pi * k / (grid - 1))) / 2 for k in range(grid)]
    gs, ws = [g(x) for x in xs], [weight(x) for x in xs]
    points = [round((grid - 1) * (k + 0.5) / n) for k in range(n)]
    for _ in range(rounds):
        a = mp.matrix(n, n)
        b = mp.matrix(n, 1)
        for i, p in enumerate(points):
            for j in range(degree + 1):
                a[i, j] = xs[p] ** j
            a[i, degree + 1] = (-1) ** i / ws[p]
            b[i] = gs[p]
        solution = mp.lu_solve(a, b)
        c = [solution[j] for j in range(degree + 1)]
        error = [ws[k] * (mp.polyval(c[::-1], xs[k]) - gs[k]) for k in range(grid)]
        # One extreme point in every stretch of one sign.
        extremes = []
        for k in range(grid):
            if extremes and (error[k] >= 0) == (error[extremes[-1]] >= 0):
                if abs(error[k]) > abs(error[extremes[-1]]):
                    extremes[-1] = k
            else:
                extremes.append(k)
        while len(extremes) > n:
            extremes.pop(0 if abs(error[extremes[0]]) < abs(error[extremes[-1]]) else -1)
        if len(extremes) < n:
            break
        if extremes == points:
            break
        points = extremes
    return c[::-1], max(abs(e) for e in error)


def taylor(f, coefficients):
    """f, or near 0, where f divides 0 by 0, its series."""
    def g(x):
        return f(x) if abs(x) > mp.mpf(10) ** -8 else mp.polyval(coefficients[::-1], x)
    return g


HALF_LN2 = mp.log(2) / 2 * mp.mpf('1.0001')
one = mp.mpf(1)
fact = mp.factorial

exp_q = taylor(lambda r: (mp.expm1(r) - r) / r**2, [one / fact(k + 2) for k in range(6)])
exp2_q = taylor(lambda r: (mp.expm1(r * mp.log(2))) / r, [mp.log(2)**(k + 1) / fact(k + 1) for k in range(6)])
log_q = taylor(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, [(-1)**k * one / (k + 3) for k in range(8)])
odd = lambda f, cs: taylor(lambda z: (f(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, cs)
tanh_q = odd(mp.tanh, [-one / 3, 2 * one / 15])
sinh_q = odd(mp.sinh, [one / 6, one / 120])
sin_q = odd(mp.sin, [-one / 6, one / 120])
asin_q = odd(mp.asin, [one / 6, 3 * one / 40])
atan_q = odd(mp.atan, [-one / 3, one / 5])
atanh_q = odd(mp.atanh, [one / 3, one / 5, one / 7])
atanh_rest = taylor(lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1 - z / 3) / z**2, [one / (2 * k + 5) for k in range(9)])
cos_q = taylor(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, [one / 24, -one / 720])
erf_q = taylor(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, [2 / mp.sqrt(mp.pi) - 1, -2 / mp.sqrt(mp.pi) / 3])
tiny = mp.mpf(10) ** -30


def erfcx(x):
    return mp.exp(x * x) * mp.erfc(x)


def share_above(x):
    """Of a normal distribution."""
    return mp.erfc(x / mp.sqrt(2)) / 2


def bent(c):
    """x of t = (x - c) / (x + c)."""
    return lambda t: c * (1 + t) / (1 - t)


rel = lambda f: (lambda z: z * mp.sqrt(z) / f(mp.sqrt(z)) if z > tiny else tiny)
FITS = {
    # in float
    'f32 exp': (exp_q, -HALF_LN2, HALF_LN2, 4, lambda r: abs(r) + tiny),
    'f32 exp2': (exp2_q, -one / 2, one / 2, 5, lambda r: abs(r) + tiny),
    'f32 exp2 short': (exp2_q, -one / 2, one / 2, 4, lambda r: abs(r) / mp.mpf(2)**r + tiny),
    'f32 log': (log_q, mp.mpf('-0.3'), mp.mpf('0.43'), 7, lambda f: f * f + tiny),
    'f32 tanh': (tanh_q, 0, mp.mpf('0.262')**2, 2, rel(mp.tanh)),
    # Far out, where the share is small, so is what an error does.
    'f32 gelu': (taylor(lambda t: mp.log(2 * share_above(t), 2) / t, [-mp.sqrt(2 / mp.pi) / mp.log(2)]), 0, 7, 9,
                 lambda t: t * mp.log(2) / (1 + mp.mpf(2)**-12 / share_above(t)) + tiny),
    'f32 erf small': (erf_q, 0, mp.mpf('0.82'), 5, lambda z: one),
    'f32 erf large': (lambda t: mp.log(mp.erfc(t), 2) / t, mp.mpf('0.9'), mp.mpf('4'), 5,
                      lambda t: t * mp.erfc(t) / mp.erf(t)),
    # in double, for float
    'wide exp': (exp_q, -HALF_LN2, HALF_LN2, 6, lambda r: abs(r) + tiny),
    'wide atanh': (atanh_q, 0, mp.mpf('0.0295'), 4, rel(mp.atanh)),
    'wide sin': (sin_q, 0, mp.mpf('0.65'), 3, rel(mp.sin)),
    'wide cos': (cos_q, 0, mp.mpf('0.65'), 3, lambda z: z * z + tiny),
    'wide asin': (asin_q, 0, one / 4, 6, rel(mp.asin)),
    'wide atan': (atan_q, 0, one, 11, rel(mp.atan)),
    'wide sinh': (sinh_q, 0, one, 3, rel(mp.sinh)),
    'wide erfcx': (lambda t: erfcx(bent(2)(t)), -one, mp.mpf('0.68'), 13,
                   lambda t: 1 / erfcx(bent(2)(t))),
    # in double, for double
    'f64 exp': (exp_q, -HALF_LN2, HALF_LN2, 10, lambda r: abs(r) + tiny),
    'f64 exp2': (exp2_q, -one / 2, one / 2, 11, lambda r: abs(r) + tiny),
    'f64 atanh': (atanh_q, 0, mp.mpf('0.0295'), 7, rel(mp.atanh)),
    'f64 tanh': (tanh_q, 0, mp.mpf('0.31'), 11, rel(mp.tanh)),
    'f64 atanh rest': (atanh_rest, 0, mp.mpf('0.0295'), 7, lambda z: z * z + tiny),
    'f64 sin': (sin_q, 0, mp.mpf('0.62'), 5, rel(mp.sin)),
    'f64 cos': (cos_q, 0, mp.mpf('0.62'), 5, lambda z: z * z + tiny),
    'f64 asin': (asin_q, 0, one / 4, 12, rel(mp.asin)),
    'f64 atan': (atan_q, 0, mp.mpf('0.1717'), 10, rel(mp.atan)),
    'f64 sinh': (sinh_q, 0, one, 6, rel(mp.sinh)),
    'f64 erf': (erf_q, 0, one, 11, lambda z: one),
    'f64 erfc': (lambda t: (1 + 2 * bent(4)(t)) * erfcx(bent(4)(t)), -one * 7 / 9, mp.mpf('0.75'), 21,
                 lambda t: one),
}

def two_over_pi():
    """2/pi * 2^(16 b - 27) less multiples of 4, for b = 0, 1, ...: four doubles each."""
    mp.mp.prec = 1400
    columns = [[], [], [], []]
    for b in range(63):
        rest = 2 / mp.pi * mp.mpf(2) ** (16 * b - 27)
        rest -= 4 * mp.nint(rest / 4)
        for column in columns:
            part = float(rest)
            column.append(part.hex())
            rest -= part
    for column in columns:
        print('    {' + ', '.join(column) + '},')


if 'two_over_pi' in sys.argv[1:]:
    two_over_pi()

for name, (g, lo, hi, degree, weight) in FITS.items():
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        continue
    c, error = remez(g, mp.mpf(lo), mp.mpf(hi), degree, weight)
    print('%s: 2^%.1f' % (name, float(mp.log(error, 2))))
    kind = '%.9gf' if name.startswith('f32') else '%.17g'
    print('    {' + ', '.join(kind % float(v) for v in c) + '}')
