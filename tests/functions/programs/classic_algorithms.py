"""Well-known algorithms on whole numbers and tables: searches, sorts, dynamic programs, sieves, bits."""

import math

import numpy as np

from tests.functions.table import program


@program((np.array([1, 5, 2, 4]), np.array([1, 2, 3, 4, 4])), (np.array([7]), np.array([7])))
def levenshtein(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    table[:, 0] = np.arange(len(a) + 1)
    table[0] = np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + cost)
    return table[-1, -1]


@program((50,), (2,))
def a_sieve(limit):
    is_prime = np.ones(101, dtype=bool)
    is_prime[0] = is_prime[1] = False
    p = 2
    while p * p <= 100:
        if is_prime[p]:
            for k in range(p * p, 101, p):
                is_prime[k] = False
        p += 1
    return np.sum(is_prime[:51]), is_prime[limit]


@program((np.array([1, 3, 5, 7, 9, 11]), 7), (np.array([1, 3, 5, 7, 9, 11]), 4), (np.array([1, 3, 5, 7, 9, 11]), 12))
def a_binary_search(values, wanted):
    low, high = 0, len(values) - 1
    while low <= high:
        middle = (low + high) // 2
        if values[middle] == wanted:
            return middle
        elif values[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return -1


@program((np.array([5, 2, 9, 1, 5, 6, -3, 0]),))
def a_quicksort_with_its_own_stack(values):
    a = values.copy()
    stack = np.zeros(32, dtype=int)
    stack[0], stack[1] = 0, len(a) - 1
    top = 2
    while top > 0:
        top -= 2
        low, high = stack[top], stack[top + 1]
        if low < high:
            pivot = a[high]
            i = low
            for j in range(low, high):
                if a[j] <= pivot:
                    a[i], a[j] = a[j], a[i]
                    i += 1
            a[i], a[high] = a[high], a[i]
            stack[top], stack[top + 1] = low, i - 1
            stack[top + 2], stack[top + 3] = i + 1, high
            top += 4
    return a


@program((np.array([2, 3, 4, 5]), np.array([3, 4, 5, 6]), 5), (np.array([1, 1, 1, 1]), np.array([9, 1, 4, 2]), 2))
def a_knapsack(weights, worth, capacity):
    best = np.zeros(11, dtype=int)
    for i in range(len(weights)):
        for c in range(10, weights[i] - 1, -1):
            best[c] = max(best[c], best[c - weights[i]] + worth[i])
    return best[capacity]


@program((np.array([0, 4, 1, 3, 2, 5]),))
def a_merge_sort_bottom_up(values):
    a = np.array(values)
    n = len(a)
    width = 1
    while width < n:
        b = a.copy()
        start = 0
        while start < n:
            middle, end = min(start + width, n), min(start + 2 * width, n)
            i, j = start, middle
            for k in range(start, end):
                if i < middle and (j >= end or a[i] <= a[j]):
                    b[k] = a[i]
                    i += 1
                else:
                    b[k] = a[j]
                    j += 1
            start += 2 * width
        a = b
        width *= 2
    return a


@program(((4, 1, 3, 2),), ((1.5, -2.0, 0.0, 9.0),))
def a_sorting_network(values):
    a, b, c, d = values
    swap = lambda x, y: (x, y) if x <= y else (y, x)
    a, b = swap(a, b)
    c, d = swap(c, d)
    a, c = swap(a, c)
    b, d = swap(b, d)
    b, c = swap(b, c)
    return a, b, c, d


@program((0b1011_0110,), (0,), (2**62 + 1,))
def bits_counted_in_two_ways(n):
    count, m = 0, n
    while m:
        m &= m - 1
        count += 1
    other = 0
    for k in range(63):
        other += (n >> k) & 1
    return count, other


@program((13,), (0,), (255,))
def bits_reversed(n):
    result = 0
    for _ in range(8):
        result = (result << 1) | (n & 1)
        n >>= 1
    return result


@program((10,), (37,), (1,))
def gray_code_and_back(n):
    gray = n ^ (n >> 1)
    back, shift = gray, 1
    while gray >> shift:
        back ^= gray >> shift
        shift += 1
    return gray, back


@program((240, 46), (17, 5), (0, 9))
def the_extended_euclidean_algorithm(a, b):
    def extended(x, y):
        if y == 0:
            return x, 1, 0
        g, s, t = extended(y, x % y)
        return g, t, s - (x // y) * t

    return extended(a, b)


@program((27,), (1,), (97,))
def collatz_with_its_peak(n):
    steps, peak = 0, n
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        peak = max(peak, n)
        steps += 1
    return steps, peak


@program((97,), (91,), (2,), (1,))
def primality_by_trial(n):
    if n < 2:
        return False
    k = 2
    while k * k <= n:
        if n % k == 0:
            return False
        k += 1
    else:
        return True


@program((360,), (97,), (1,))
def the_factors_of_a_number(n):
    factors = np.zeros(10, dtype=int)
    count, p = 0, 2
    while n > 1 and count < 10:
        if n % p:
            p += 1
            continue
        factors[count] = p
        count += 1
        n //= p
    return factors, count


@program((28,), (12,), (6,))
def a_perfect_number(n):
    return sum(k for k in range(1, n) if n % k == 0) == n


@program((12345,), (0,), (900,))
def digits_summed_and_reversed(n):
    total, backwards = 0, 0
    while n:
        n, digit = divmod(n, 10)
        total += digit
        backwards = backwards * 10 + digit
    return total, backwards


@program((1994,), (4,), (49,))
def a_roman_number_counts_its_letters(n):
    letters = 0
    for value in (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1):
        while n >= value:
            n -= value
            letters += 1 if value in (1000, 500, 100, 50, 10, 5, 1) else 2
    return letters


@program((11, (1, 2, 5)), (3, (2,)))
def the_fewest_coins(amount, coins):
    unreachable = 99
    best = np.full(20, unreachable)
    best[0] = 0
    for a in range(1, 20):
        for coin in coins:
            if a >= coin:
                best[a] = min(best[a], best[a - coin] + 1)
    return best[amount] if best[amount] < unreachable else -1


@program((np.array([10, 9, 2, 5, 3, 7, 101, 18]),), (np.array([3, 3, 3]),))
def the_longest_increasing_run_of_choices(values):
    n = len(values)
    length = [1] * n
    for i in range(n):
        for j in range(i):
            if values[j] < values[i]:
                length[i] = max(length[i], length[j] + 1)
    return max(length)


@program((np.array([[0, 3, 99, 7], [8, 0, 2, 99], [5, 99, 0, 1], [2, 99, 99, 0]]),))
def shortest_paths_of_all_pairs(d):
    for k in range(4):
        d = np.minimum(d, d[:, k][:, None] + d[k][None, :])
    return d


@program((np.array([[0, 1, 4, 99], [1, 0, 2, 6], [4, 2, 0, 3], [99, 6, 3, 0]]), 0),)
def dijkstra_on_a_matrix(weights, source):
    n = len(weights)
    distance = np.full(n, 1000)
    done = np.zeros(n, dtype=bool)
    distance[source] = 0
    for _ in range(n):
        u, best = -1, 10_000
        for v in range(n):
            if not done[v] and distance[v] < best:
                u, best = v, distance[v]
        done[u] = True
        for v in range(n):
            if weights[u, v] < 99 and best + weights[u, v] < distance[v]:
                distance[v] = best + weights[u, v]
    return distance


@program((np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]]),))
def a_flood_fill_with_a_queue(grid):
    queue = np.zeros((32, 2), dtype=int)
    seen = np.zeros((3, 3), dtype=bool)
    head, tail = 0, 1
    seen[0, 0] = True
    while head < tail:
        i, j = queue[head]
        head += 1
        for di, dj in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            a, b = i + di, j + dj
            if 0 <= a < 3 and 0 <= b < 3 and grid[a, b] == 1 and not seen[a, b]:
                seen[a, b] = True
                queue[tail] = (a, b)
                tail += 1
    return seen, tail


@program((4,), (6,), (1,))
def queens_counted_by_bits(n):
    full = (1 << n) - 1

    def queens(columns, left, right):
        if columns == full:
            return 1
        free = full & ~(columns | left | right)
        count = 0
        while free:
            bit = free & -free
            free ^= bit
            count += queens(columns | bit, (left | bit) << 1, (right | bit) >> 1)
        return count

    return queens(0, 0, 0)


@program((5,), (1,))
def rows_of_pascals_triangle(n):
    row = np.zeros(8, dtype=int)
    row[0] = 1
    for _ in range(n):
        for k in range(7, 0, -1):
            row[k] += row[k - 1]
    return row


@program((np.array([3, 1, 2, 1, 3, 3]),), (np.array([5]),))
def the_majority_by_votes(values):
    candidate, votes = 0, 0
    for v in values:
        if votes == 0:
            candidate = v
        votes += 1 if v == candidate else -1
    return candidate, sum(1 for v in values if v == candidate)


@program((np.array([3, 4, 1, 2]), 2), (np.array([3, 4, 1, 2]), 4))
def a_permutation_applied_again_and_again(p, times):
    q = np.arange(len(p))
    for _ in range(times):
        q = (p - 1)[q]
    return q


@program((2024, 2, 29), (1900, 3, 1), (2000, 12, 31))
def the_day_of_the_week(year, month, day):
    table = (0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4)
    if month < 3:
        year -= 1
    return (year + year // 4 - year // 100 + year // 400 + table[month - 1] + day) % 7


@program((2024,), (1900,), (2000,), (2023,))
def a_leap_year(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@program((10, 3), (5, 0))
def josephus(n, k):
    survivor = 0
    for size in range(2, n + 1):
        survivor = (survivor + k) % size
    return survivor + 1


@program((np.array([1, 2, 3, 4, 5, 6]), 2), (np.array([1, 2, 3, 4, 5, 6]), -1))
def a_rotation_by_three_reversals(values, k):
    a = values.copy()
    n = len(a)
    k %= n

    def reverse(x, low, high):
        while low < high:
            x[low], x[high] = x[high], x[low]
            low, high = low + 1, high - 1
        return x

    a = reverse(a, 0, n - 1)
    a = reverse(a, 0, k - 1)
    return reverse(a, k, n - 1)


@program((np.array([0, 1, 0, 2, 1, 0, 1, 3, 2, 1, 2, 1]),))
def water_between_walls(heights):
    low, high = 0, len(heights) - 1
    left = right = water = 0
    while low < high:
        if heights[low] < heights[high]:
            left = max(left, heights[low])
            water += left - heights[low]
            low += 1
        else:
            right = max(right, heights[high])
            water += right - heights[high]
            high -= 1
    return water


@program((1.0, 2.0, -3.0), (1.0, 2.0, 1.0), (1.0, 0.0, 4.0))
def the_roots_of_a_quadratic(a, b, c):
    d = b * b - 4 * a * c
    if d > 0:
        count, root = 2, (-b + math.sqrt(d)) / (2 * a)
    elif d == 0:
        count, root = 1, -b / (2 * a)
    else:
        count, root = 0, 0.0
    return count, root


@program((np.array([4, 2, 7, 1]),))
def a_heap_is_built(values):
    heap = np.zeros(8, dtype=int)
    size = 0
    for v in values:
        i = size
        heap[i] = v
        size += 1
        while i > 0 and heap[(i - 1) // 2] > heap[i]:
            parent = (i - 1) // 2
            heap[parent], heap[i] = heap[i], heap[parent]
            i = parent
    return heap[:4], size


@program((6, 3), (3, 6), (0, 0))
def paths_through_a_grid(m, n):
    def paths(i, j):
        if i == 0 or j == 0:
            return 1
        return paths(i - 1, j) + paths(i, j - 1)

    return paths(m, n) == math.comb(9, 3) if m + n == 9 else paths(m, n) == 1


@program((np.array([2, 7, 11, 15]), 9), (np.array([2, 7, 11, 15]), 100))
def two_numbers_with_a_sum(values, target):
    for i in range(len(values)):
        for j in range(i + 1, len(values)):
            if values[i] + values[j] == target:
                break
        else:
            continue
        return i, j
    return -1, -1
