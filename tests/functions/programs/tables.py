"""Dynamic programming and simulations on local arrays and lists, by loops with bounds that the data give."""

import math

import numpy as np

from tests.functions.table import program


@program((np.array([1, 3, 4]), np.array([15, 20, 30]), 4), (np.array([1, 3, 4]), np.array([15, 20, 30]), 8))
def a_knapsack_by_rows(weights, values, capacity):
    best = np.zeros((4, 9), dtype=int)
    for i in range(1, 4):
        for c in range(capacity + 1):
            best[i, c] = best[i - 1, c]
            if weights[i - 1] <= c:
                best[i, c] = max(best[i, c], best[i - 1, c - weights[i - 1]] + values[i - 1])
    return best[3, capacity]


@program((np.array([10, 9, 2, 5, 3, 7, 101, 18]),), (np.array([1, 2, 3]),))
def the_longest_increasing_subsequence(v):
    n = len(v)
    lengths = np.ones(n, int)
    for i in range(n):
        for j in range(i):
            if v[j] < v[i] and lengths[j] + 1 > lengths[i]:
                lengths[i] = lengths[j] + 1
    return lengths.max(), lengths


@program((np.array([40, 20, 30, 10, 30]),))
def the_cheapest_matrix_chain(dims):
    n = len(dims) - 1
    cost = np.zeros((n, n), dtype=np.int64)
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            best = 1 << 60
            for k in range(i, j):
                best = min(best, cost[i, k] + cost[k + 1, j] + dims[i] * dims[k + 1] * dims[j + 1])
            cost[i, j] = best
    return cost[0, n - 1]


@program((np.array([[0, 3, 100], [2, 0, 1], [100, 7, 0]]),))
def floyd_warshall_in_place(d):
    d = d.copy()
    n = len(d)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


@program((30,), (2,))
def a_sieve_with_a_dynamic_bound(n):
    is_prime = np.ones(50, dtype=bool)
    is_prime[:2] = False
    k = 2
    while k * k <= n:
        if is_prime[k]:
            for multiple in range(k * k, n + 1, k):
                is_prime[multiple] = False
        k += 1
    return is_prime[:31], is_prime[n]


@program((np.array([2, 1, 0, 3]),))
def ways_through_a_grid_with_holes(holes):
    ways = np.zeros((4, 4), int)
    ways[0, :] = 1
    for r in range(1, 4):
        for c in range(4):
            if holes[r] == c:
                ways[r, c] = 0
            else:
                ways[r, c] = ways[r - 1, c] + (ways[r, c - 1] if c > 0 else 0)
    return ways


@program((10,), (0,), (3,))
def fibonacci_in_a_table(n):
    table = np.zeros(12, dtype=int)
    table[1] = 1
    for k in range(2, n + 1):
        table[k] = table[k - 1] + table[k - 2]
    return table[n]


@program((np.array([3, 34, 4, 12, 5, 2]), 9), (np.array([3, 34, 4, 12, 5, 2]), 30))
def a_subset_with_a_sum(v, target):
    reachable = np.zeros(64, dtype=bool)
    reachable[0] = True
    for value in v:
        for s in range(target, value - 1, -1):
            reachable[s] = reachable[s] or reachable[s - value]
    return reachable[target]


@program((np.array([1, 5, 11, 5]),), (np.array([1, 2, 3, 5]),))
def bits_as_a_set(v):
    sums = 1
    for value in v:
        sums |= sums << value
    total = v.sum()
    return total % 2 == 0 and (sums >> (total // 2)) & 1 == 1


@program((np.array([4.0, 1.0, 3.0, 2.0]),))
def a_heap_sort(v):
    h = v.copy()
    n = len(h)

    def sift(h, start, end):
        root = start
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and h[child] < h[child + 1]:
                child += 1
            if h[root] >= h[child]:
                break
            h[root], h[child] = h[child], h[root]
            root = child
        return h

    for start in range(n // 2 - 1, -1, -1):
        h = sift(h, start, n)
    for end in range(n - 1, 0, -1):
        h[0], h[end] = h[end], h[0]
        h = sift(h, 0, end)
    return h


@program((np.array([5, 2, 9, 1, 5, 6]), 5), (np.array([5, 2, 9, 1, 5, 6]), 7))
def two_pointers(v, target):
    w = np.sort(v)
    i, j = 0, len(w) - 1
    while i < j:
        s = w[i] + w[j]
        if s == target:
            return i, j
        if s < target:
            i += 1
        else:
            j -= 1
    return -1, -1


@program((np.array([0, 1, 0, 2, 1, 0, 1, 3, 2, 1, 2, 1]),))
def rain_between_walls(heights):
    left, right = 0, len(heights) - 1
    left_max = right_max = total = 0
    while left < right:
        if heights[left] < heights[right]:
            if heights[left] >= left_max:
                left_max = heights[left]
            else:
                total += left_max - heights[left]
            left += 1
        else:
            if heights[right] >= right_max:
                right_max = heights[right]
            else:
                total += right_max - heights[right]
            right -= 1
    return total


@program((np.array([0.3, 0.5, 0.2]), np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]), 6), grad=(0, 1))
def a_markov_chain(start, steps, n):
    p = start
    for _ in range(n):
        q = np.zeros(3)
        for i in range(3):
            for j in range(3):
                q[j] += p[i] * steps[i, j]
        p = q
    return p[0] * p[1]


@program((np.array([1.0, 2.0, 4.0, 7.0]), np.array([1.0, 3.0, 4.0]), 0.5), grad=(0, 1))
def dynamic_time_warping(a, b, penalty):
    n, m = len(a), len(b)
    d = np.full((n + 1, m + 1), 1e6)
    d[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = (a[i - 1] - b[j - 1]) ** 2
            d[i, j] = cost + min(d[i - 1, j] + penalty, d[i, j - 1] + penalty, d[i - 1, j - 1])
    return d[n, m]


@program((np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1, 1, 0])), grad=0)
def a_forward_algorithm(emission, seen):
    alpha = emission[:, seen[0]] * 0.5
    for t in range(1, len(seen)):
        alpha = (alpha @ np.array([[0.8, 0.2], [0.3, 0.7]])) * emission[:, seen[t]]
    return math.log(alpha.sum())


@program((16, 5), (1, 3))
def josephus_by_a_list_of_flags(n, k):
    alive = np.arange(20) < n
    left, spot, count = n, -1, 0
    while left > 1:
        spot = (spot + 1) % n
        if alive[spot]:
            count += 1
            if count == k:
                alive[spot] = False
                left -= 1
                count = 0
    for i in range(n):
        if alive[i]:
            return i
    return -1


@program((np.array([1, 0, 1, 1, 0, 0, 1, 0]), 110, 3), (np.array([1, 0, 1, 1, 0, 0, 1, 0]), 30, 2))
def a_cellular_automaton(cells, rule, rounds):
    cells = cells.copy()
    for _ in range(rounds):
        after = np.zeros_like(cells)
        for i in range(len(cells)):
            code = cells[i - 1] * 4 + cells[i] * 2 + cells[(i + 1) % len(cells)]
            after[i] = (rule >> code) & 1
        cells = after
    return cells


@program((5, 7), (12, 18))
def a_random_walk_by_a_generator(seed, n):
    state, x, y = seed, 0, 0
    trace = np.zeros((20, 2), int)
    for k in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        match (state >> 16) & 3:
            case 0:
                x += 1
            case 1:
                x -= 1
            case 2:
                y += 1
            case _:
                y -= 1
        trace[k] = x, y
    return x, y, trace[n // 2]


@program((np.array([2.0, 7.0, 1.0, 8.0, 2.0]), 3), (np.array([2.0, 7.0, 1.0, 8.0, 2.0]), 1))
def the_largest_of_each_window(v, width):
    out = np.full(5, -np.inf)
    for i in range(5 - width + 1):
        best = v[i]
        for j in range(i + 1, i + width):
            best = max(best, v[j])
        out[i] = best
    return out


@program((np.array([1.0, 2.0]), 0.1, 20), grad=0)
def an_euler_integration_with_a_table(y, h, n):
    history = np.zeros((21, 2))
    history[0] = y
    for k in range(n):
        a, b = history[k]
        history[k + 1] = history[k] + h * np.array([b, -a * (1 + 0.1 * b)])
    return history[n] @ history[n // 2]


@program((4,), (1,), (6,))
def queens_by_recursion(n):
    def placed(row, columns, left, right):
        if row == n:
            return 1
        count = 0
        for c in range(n):
            bit = 1 << c
            if not (columns & bit) and not (left >> (row + c)) & 1 and not (right >> (row - c + n)) & 1:
                count += placed(row + 1, columns | bit, left | 1 << (row + c), right | 1 << (row - c + n))
        return count

    return placed(0, 0, 0, 0)


@program((np.array([3, 0, 2, 1]),), (np.array([0, 1, 2, 3]),))
def cycles_of_a_permutation(p):
    seen = np.zeros(len(p), dtype=bool)
    cycles = 0
    for i in range(len(p)):
        if seen[i]:
            continue
        cycles += 1
        k = i
        while not seen[k]:
            seen[k] = True
            k = p[k]
    return cycles


@program((np.array([[4.0, 1.0], [2.0, 3.0]]), np.array([1.0, 2.0]), 25), grad=(0, 1))
def jacobi_iterations(a, b, n):
    x = np.zeros(2)
    for _ in range(n):
        y = np.zeros(2)
        for i in range(2):
            s = 0.0
            for j in range(2):
                if i != j:
                    s += a[i, j] * x[j]
            y[i] = (b[i] - s) / a[i, i]
        x = y
    return x.sum()
