"""Numerical methods as they are written by hand: iterations, recurrences, quadrature, transforms, simulation."""

import cmath
import math

import numpy as np

from tests.functions.table import program

M = np.array([[4.0, 1.0, 0.5], [1.0, 5.0, 2.0], [0.5, 2.0, 6.0]])


@program((2.0,), (7.5,))
def a_root_by_bisection_with_early_return(target):
    def f(x):
        return x**3 + x - target

    low, high = -10.0, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        value = f(middle)
        if abs(value) < 1e-13:
            return middle
        if value > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2


@program((1.0, 0.5, 10), (1.0, 0.5, 0))
def runge_kutta_of_a_pendulum(angle, velocity, steps):
    def slope(state):
        a, v = state
        return v, -math.sin(a)

    def shifted(state, change, h):
        return tuple(s + h * c for s, c in zip(state, change))

    state, h = (angle, velocity), 0.05
    for _ in range(steps):
        k1 = slope(state)
        k2 = slope(shifted(state, k1, h / 2))
        k3 = slope(shifted(state, k2, h / 2))
        k4 = slope(shifted(state, k3, h))
        change = tuple((a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4))
        state = shifted(state, change, h)
    return state


@program((M, np.array([1.0, 2.0, 3.0]), 1e-10))
def gauss_seidel(a, b, tolerance):
    n = len(b)
    x = np.zeros(n)
    rounds = 0
    change = 1.0
    while change > tolerance:
        change = 0.0
        for i in range(n):
            rest = 0.0
            for j in range(n):
                if j != i:
                    rest += a[i, j] * x[j]
            value = (b[i] - rest) / a[i, i]
            change = max(change, abs(value - x[i]))
            x[i] = value
        rounds += 1
    return x, rounds


@program((M / 10,))
def a_matrix_exponential_by_its_series(a):
    term = np.eye(3)
    total = np.eye(3)
    k = 1
    while np.max(np.abs(term)) > 1e-15:
        term = term @ a / k
        total = total + term
        k += 1
    return total


@program((M, 100))
def power_iteration(a, limit):
    v = np.ones(3) / math.sqrt(3)
    value = 0.0
    for step in range(limit):
        w = a @ v
        largest = math.sqrt(w @ w)
        w = w / largest
        if abs(largest - value) < 1e-13:
            break
        v, value = w, largest
    return np.round(value, 9), step


@program((0.3, [1.0, -2.0, 3.5, 0.25]), (0.0, [2.0]))
def horner(x, coefficients):
    value = 0.0
    for c in reversed(coefficients):
        value = value * x + c
    return value


@program((12,), (1,))
def a_continued_fraction(n):
    x = 1.0
    for k in range(n, 0, -1):
        x = 1 + 1 / x
    return x


@program((-0.5, 0.5, 100), (0.7, 0.9, 100))
def mandelbrot_rounds(re, im, limit):
    c = complex(re, im)
    z = 0j
    n = 0
    while abs(z) <= 2 and n < limit:
        z = z * z + c
        n += 1
    return n


@program((np.array([1.0, 2.0, 0.0, -1.0, 1.5, 0.5, 0.0, 3.0]),))
def a_fast_fourier_transform_by_recursion(x):
    def fft(v):
        n = len(v)
        if n == 1:
            return v
        even, odd = fft(v[::2]), fft(v[1::2])
        factors = np.exp(-2j * np.pi * np.arange(n // 2) / n)
        return np.concatenate([even + factors * odd, even - factors * odd])

    return fft(x.astype(complex))


@program((np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, -1.0, 0.25])))
def a_convolution_by_two_loops(x, k):
    out = np.zeros(len(x) + len(k) - 1)
    for i in range(len(x)):
        for j in range(len(k)):
            out[i + j] += x[i] * k[j]
    return out


@program((np.array([[0, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]), 5))
def a_game_of_life(board, generations):
    for _ in range(generations):
        neighbours = sum(
            np.roll(np.roll(board, i, axis=0), j, axis=1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
        )
        board = np.where((neighbours == 3) | ((board == 1) & (neighbours == 2)), 1, 0)
    return board


@program((42, 10), (1, 0))
def a_linear_congruential_generator(seed, n):
    state, total = seed, 0.0
    for _ in range(n):
        state = (1103515245 * state + 12345) % 2**31
        total += state / 2**31
    return state, total


@program((np.array([[0.0, 0.1], [0.2, 0.0], [5.0, 5.1], [5.2, 4.9], [0.1, 0.1]]), 4))
def k_means_with_fixed_rounds(points, rounds):
    centres = points[:2] * 1.0
    for _ in range(rounds):
        distances = np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=2)
        labels = np.argmin(distances, axis=1)
        member = labels[:, None] == np.arange(2)
        counts = np.maximum(member.sum(axis=0), 1)
        centres = (member.T.astype(float) @ points) / counts[:, None]
    return centres, labels


@program((np.array([0, 1, 1, 0]),), (np.array([1, 1, 1, 1]),))
def viterbi(observed):
    start = np.log(np.array([0.6, 0.4]))
    change = np.log(np.array([[0.7, 0.3], [0.4, 0.6]]))
    emit = np.log(np.array([[0.9, 0.1], [0.2, 0.8]]))
    n = len(observed)
    score = start + emit[:, observed[0]]
    back = np.zeros((n, 2), dtype=int)
    for t in range(1, n):
        table = score[:, None] + change
        back[t] = np.argmax(table, axis=0)
        score = np.max(table, axis=0) + emit[:, observed[t]]
    path = np.zeros(n, dtype=int)
    path[n - 1] = np.argmax(score)
    for t in range(n - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path, np.max(score)


@program((7, 3.0, 0.5))
def simulated_annealing_with_its_own_random_numbers(seed, start, rate):
    energy = lambda v: (v - 1.0) ** 2 + 0.3 * math.cos(5 * v)
    state, x = seed, start
    best = x
    temperature = 1.0
    for _ in range(60):
        state = (state * 75 + 74) % 65537
        step = (state / 65537 - 0.5) * 2 * rate
        state = (state * 75 + 74) % 65537
        delta = energy(x + step) - energy(x)
        if delta < 0 or state / 65537 < math.exp(-delta / temperature):
            x = x + step
            if energy(x) < energy(best):
                best = x
        temperature *= 0.95
    return best, x


@program((0.0, math.pi, 20), (0.0, 1.0, 2))
def simpsons_rule(a, b, n):
    h = (b - a) / n
    total = math.sin(a) + math.sin(b)
    for i in range(1, n):
        total += (4 if i % 2 else 2) * math.sin(a + i * h)
    return total * h / 3


@program((2.0, 0.0, 1.0),)
def the_secant_method(target, x0, x1):
    f = lambda v: v * v - target
    steps = 0
    while abs(f(x1)) > 1e-12 and steps < 50:
        x0, x1 = x1, x1 - f(x1) * (x1 - x0) / (f(x1) - f(x0))
        steps += 1
    return x1, steps


@program((M, np.array([1.0, -1.0, 2.0])))
def gaussian_elimination_with_pivots(a, b):
    m = np.concatenate([a, b[:, None]], axis=1)
    n = 3
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(m[i, k]) > abs(m[p, k]):
                p = i
        row = m[k].copy()
        m[k] = m[p]
        m[p] = row
        for i in range(k + 1, n):
            m[i] -= m[k] * (m[i, k] / m[k, k])
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        total = m[i, n]
        for j in range(i + 1, n):
            total -= m[i, j] * x[j]
        x[i] = total / m[i, i]
    return x


@program((M,))
def cholesky_by_hand(a):
    n = len(a)
    low = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - np.dot(low[i, :], low[j, :])
            low[i, j] = math.sqrt(s) if i == j else s / low[j, j]
    return low


@program((M, np.array([1.0, 0.0, -1.0])))
def conjugate_gradients(a, b):
    x = np.zeros_like(b)
    r = b - a @ x
    p = r
    rs = r @ r
    while rs > 1e-20:
        ap = a @ p
        alpha = rs / (p @ ap)
        x = x + alpha * p
        r = r - alpha * ap
        rs, before = r @ r, rs
        p = r + (rs / before) * p
    return x


@program((10.0, 28.0, 8 / 3, 50))
def a_lorenz_orbit(sigma, rho, beta, n):
    x = y = z = 1.0
    largest = x
    for i in range(n):
        dx, dy, dz = sigma * (y - x), x * (rho - z) - y, x * y - beta * z
        x, y, z = x + 0.01 * dx, y + 0.01 * dy, z + 0.01 * dz
        largest = x if x > largest else largest
    return {"at": (x, y, z), "largest": largest}


@program((np.array([0.0, 0.0, 1.0, 0.0, 0.0]), 0.2, 7))
def diffusion_by_slices(u, rate, steps):
    for _ in range(steps):
        inner = u[1:-1] + rate * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = np.concatenate([[0.0], inner, [0.0]])
    return u


@program((100,), (1,))
def pi_by_leibniz_with_alternating_sign(n):
    total, sign = 0.0, 1
    for k in range(n):
        total += sign * 4 / (2 * k + 1)
        sign = -sign
    return total


@program((1.0, 0.5), (2.0, 1.0))
def the_arithmetic_geometric_mean(a, g):
    while True:
        a, g = (a + g) / 2, math.sqrt(a * g)
        if abs(a - g) < 1e-14:
            return a


@program((2.0, 1e-12), (0.5, 1e-12))
def a_logarithm_by_its_series(x, tolerance):
    y = (x - 1) / (x + 1)
    term, total, k = y, 0.0, 1
    while abs(term) > tolerance:
        total += term / k
        term *= y * y
        k += 2
    return 2 * total


@program((1 + 1j,), (-2 + 0.5j,))
def a_complex_newton_iteration(z):
    for _ in range(30):
        z = z - (z**3 - 1) / (3 * z**2)
    return abs(z - 1) < 1e-9, abs(z**3 - 1) < 1e-9, round(cmath.phase(z), 6)


@program((np.array([3.0, -1.0, 2.0]), 25))
def a_descent_with_momentum(x, steps):
    velocity = np.zeros(3)
    losses = np.zeros(25)
    for i in range(steps):
        gradient = 2 * (x - np.array([1.0, 2.0, 3.0]))
        velocity = 0.9 * velocity - 0.05 * gradient
        x = x + velocity
        losses[i] = np.sum((x - np.array([1.0, 2.0, 3.0])) ** 2)
    return x, losses[-1], np.argmin(losses)


@program((np.array([1.0, 2.0, 4.0, 3.0]), 0.5))
def an_exponential_moving_average(values, weight):
    out = []
    state = values[0]
    for v in values:
        state = weight * v + (1 - weight) * state
        out.append(state)
    return np.array(out), len(out)


@program((np.array([2.0, 4.0, 4.0, 5.0, 9.0]),))
def welfords_variance(values):
    count, mean, squares = 0, 0.0, 0.0
    for v in values:
        count += 1
        delta = v - mean
        mean += delta / count
        squares += delta * (v - mean)
    return mean, squares / (count - 1), math.isclose(mean, np.mean(values))
