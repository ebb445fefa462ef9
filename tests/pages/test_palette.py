"""The charts' colours as eyes see them: the distances are computed here, by the published formulas."""

from itertools import combinations

import numpy as np
import pytest

from batfill_pages.palette import DASHES, DISTINCT, styles

# Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, severity 1.0; they act on linear RGB.
EYES = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
LEAST = 20.0  # 2.3 is just noticed side by side


def linear(colour):
    """Linear RGB, 0 to 1, of #rrggbb."""
    c = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB (D65) of linear RGB."""
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    xyz = np.array(to_xyz) @ rgb / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def ciede2000(one, other):
    """Sharma, Wu and Dalal, Color Research and Application 30(1), 2005."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    c = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 0.5 * (1 - np.sqrt(c**7 / (c**7 + 25.0**7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    dh = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    middle_h = (h1 + ((h2 - h1 + 180) % 360 - 180) / 2) % 360 if c1 * c2 else h1 + h2
    middle_l, middle_c = (l1 + l2) / 2, (c1 + c2) / 2
    big_h = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(dh / 2))
    t = (
        1
        - 0.17 * np.cos(np.radians(middle_h - 30))
        + 0.24 * np.cos(np.radians(2 * middle_h))
        + 0.32 * np.cos(np.radians(3 * middle_h + 6))
        - 0.20 * np.cos(np.radians(4 * middle_h - 63))
    )
    s_l = 1 + 0.015 * (middle_l - 50) ** 2 / np.sqrt(20 + (middle_l - 50) ** 2)
    s_c, s_h = 1 + 0.045 * middle_c, 1 + 0.015 * middle_c * t
    turn = -np.sin(np.radians(60 * np.exp(-(((middle_h - 275) / 25) ** 2))))
    r_t = 2 * np.sqrt(middle_c**7 / (middle_c**7 + 25.0**7)) * turn
    x, y, z = (l2 - l1) / s_l, (c2 - c1) / s_c, big_h / s_h
    return float(np.sqrt(x**2 + y**2 + z**2 + r_t * y * z))


def seen(colour, eye):
    return lab(np.clip(np.array(EYES[eye]) @ linear(colour), 0, 1))


@pytest.mark.parametrize("eye", EYES)
def test_two_series_with_the_same_dashes_are_told_apart_by_every_eye(eye):
    drawn = styles(DISTINCT)
    pairs = [(a, b) for a, b in combinations(drawn, 2) if a.dash == b.dash]
    assert len(pairs) == len(DASHES) * 15
    near = {
        (one, other): distance
        for a, b in pairs
        for one, other in [(a.light, b.light)]
        if (distance := ciede2000(seen(one, eye), seen(other, eye))) < LEAST
    }
    assert near == {}
