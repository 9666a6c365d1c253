"""The times of collectives within a domain of NVLink, against measured times and at their limits.

Covers `analysis/collective_rates.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hloom.analysis import collective_line, comm_factor, device
from hloom.analysis.collective_rates import CollectiveLine, PairRates, PeerRates, RingRates, law
from tests.analysis.gpu_times import accuracy, collectives, estimate

ROWS = collectives()
MADE = accuracy(ROWS, map(estimate, ROWS))
FEWEST_WITHIN = {"h100": 0.65, "b200": 0.8}
"""The share of rows within 20 % where it is below 85 %: short messages in a host of eight do not repeat."""
RING = RingRates(1e-5, 4e11, 0.5, 1.0, step_seconds=1e-6)
PEERS = PeerRates(1e-5, 1e-6, 1024, 1e9, 1e10, 0.5, 0.5, 1e-3)
PAIR = PairRates(1e-5, 1024, 1e9, 1e11, 1e6, 1e10, 0.0, 1.0)


@pytest.mark.parametrize("group", MADE)
def test_measured_collectives(group: tuple[str, str, str]):
    """How well such rates do on rows left out is in docs/time.md, by scripts/calibrate_gpus.py."""
    made = MADE[group]
    assert 0.97 <= made.median <= 1.03
    assert made.within >= FEWEST_WITHIN.get(group[0], 0.85)


def test_a_ring_takes_its_steps_and_its_bytes():
    time = RING.time(8, 1)
    assert time.latency == pytest.approx(17e-6)
    sent = 2**40
    assert time.seconds(sent) == pytest.approx(sent * 7.5 / 8 / 4e11, rel=1e-2)
    both = RING.time(8, 2)
    assert both.latency == pytest.approx(24e-6)
    assert both.seconds(sent) == pytest.approx(2 * time.seconds(sent), rel=1e-2)


def test_the_latency_of_a_ring_may_have_a_limit():
    limited = replace(RING, latency_limit=5e-5)
    assert [limited.time(size, 2).latency for size in (2, 8, 64, 72)] == pytest.approx([12e-6, 24e-6, 5e-5, 5e-5])


def test_the_last_of_more_devices_is_later():
    """In a host whose devices are launched one by one, by as much for each doubling."""
    host = RingRates(1e-5, 4e11, 0.5, 1.0, doubling_seconds=3e-6)
    assert [host.time(size, 2).latency for size in (2, 4, 8)] == pytest.approx([13e-6, 16e-6, 19e-6])


def test_short_parts_for_peers_are_sent_eagerly():
    time = PEERS.time(16, 1)
    assert time.seconds(16) == pytest.approx(16e-6)  # the peers take longer than the launch
    assert time.seconds(16 * 1024) == pytest.approx(1e-5 + 16 * 1024 / 1e9)
    assert time.seconds(16 * 1025) < time.seconds(16 * 1024)


def test_channels_are_for_a_power_of_two_of_peers():
    even, odd = PEERS.time(16, 1), PEERS.time(18, 1)
    assert odd.seconds(10**6) / even.seconds(10**6) > 1.5
    assert odd.seconds(10**12) / even.seconds(10**12) == pytest.approx(1, rel=0.01)


def test_a_pair_uses_more_channels_for_longer_messages():
    time = PAIR.time(2, 1)
    one, two, four = (time.seconds(count * 1e6) for count in (1, 2, 4))
    assert one == pytest.approx(two) == pytest.approx(four) == pytest.approx(1e-5 + 1e-4)
    assert time.seconds(1e12) == pytest.approx(10, rel=1e-4)


@pytest.mark.parametrize("time", [CollectiveLine(1e-6, 1e-9), RING.time(8, 2), PEERS.time(18, 1), PAIR.time(2, 1)])
def test_nothing_takes_no_time_and_arrays_take_that_of_each(time):
    sizes = np.array([[0, 1, 1000], [10**5, 10**7, 10**10]], np.float64)
    assert time.seconds(0) == 0
    assert time.each(sizes) == pytest.approx(np.array([[time.seconds(size) for size in row] for row in sizes]))
    assert time.scaled(3.0).seconds(1e7) == pytest.approx(time.seconds(3e7))
    assert time.scaled(0.5).byte_seconds == pytest.approx(time.byte_seconds / 2)
    assert time.scaled(0.5).latency == time.latency


def test_the_law_is_told_by_the_figures():
    assert law(["launch_seconds", "step_seconds"]) is RingRates
    assert law(["peer_seconds", "eager_bytes"]) is PeerRates
    assert law(["channel_bytes", "eager_bytes"]) is PairRates


def test_opcodes_without_rates_of_their_own_take_those_of_alike_ones():
    h100 = device("h100")
    eight, pair = range(8), (0, 3)
    assert collective_line("all-reduce-start", eight, h100) == collective_line("all-reduce", eight, h100)
    assert collective_line("ragged-all-to-all", eight, h100) == collective_line("all-to-all", eight, h100)
    assert collective_line("send", pair, h100) == collective_line("collective-permute", pair, h100)


def test_groups_beyond_a_measured_link_are_priced_by_their_links():
    """Sixteen H100s in two hosts: 14 of 15 steps over NVLink, one over InfiniBand, of which each host has eight."""
    h100 = device("h100")
    rates = h100.links[0].collectives
    assert rates
    line = collective_line("all-gather", range(16), h100)
    launch = rates["all-gather"].launch(16)
    assert (line.latency, line.byte_seconds) == pytest.approx((launch + 14 * 1.9e-6 + 4e-6, 1 / 400e9))
    pair = collective_line("send", (0, 8), h100)
    launch = rates["collective-permute"].launch_seconds
    assert (pair.latency, pair.byte_seconds) == pytest.approx((launch + 4e-6, 1 / 50e9))


@pytest.mark.parametrize("opcode", ["all-gather", "all-reduce", "all-to-all", "collective-permute"])
def test_leaving_the_host_is_never_faster(opcode: str):
    h100 = device("h100")
    near, far = (collective_line(opcode, members, h100) for members in ((0, 1), (0, 8)))
    for sent in (1, 10**3, 10**6, 10**8, 10**10):
        assert far.seconds(sent) > near.seconds(sent) * 0.99


def test_a_host_of_a_larger_domain_has_a_way_of_its_own():
    """All-to-alls within a host; the other collectives of its devices are those of the domain."""
    gb200 = device("gb200")
    host, domain = gb200.links[:2]
    assert host.collectives and domain.collectives
    assert set(host.collectives) == {"all-to-all"}
    small = collective_line("all-to-all", range(4), gb200), collective_line("all-to-all", (0, 1, 2, 4), gb200)
    assert small[0].latency > small[1].latency
    gathered = domain.collectives["all-gather"].time(4, 1)
    assert collective_line("all-gather", range(4), gb200) == gathered.scaled(1 / comm_factor("all-gather", 4))
