"""Labels of the airline study's maps cover neither each other nor the map's edge."""

import numpy as np
from matplotlib.figure import Figure

from deeppqr_studies.airline._outline import LINES  # pyright: ignore[reportMissingImports]
from deeppqr_studies.airline._report import LETTER, MAP, label_places


def test_labels_of_near_places_are_apart():
    places = {
        "San Francisco": (-122.4, 37.6),
        "Sacramento": (-121.5, 38.6),
        "Los Angeles": (-118.4, 33.9),
        "San Diego": (-117.2, 32.7),
        "Las Vegas": (-115.2, 36.1),
        "Boston": (-71.0, 42.4),
    }
    axis = Figure().subplots()
    label_places(axis, places)
    boxes = []
    for text in axis.texts:
        x, y = text.get_position()
        wide = LETTER[0] * len(text.get_text())
        boxes.append((x, y - LETTER[1] / 2, x + wide, y + LETTER[1] / 2))
    assert len(boxes) == len(places)
    for one, box in enumerate(boxes):
        assert box[2] < MAP[0][1]
        for other in boxes[:one]:
            apart = box[2] < other[0] or other[2] < box[0]
            assert apart or box[3] < other[1] or other[3] < box[1]


def test_the_outline_lies_around_the_country():
    points = np.concatenate([np.array(line) for line in LINES])
    assert points.shape[1] == 2
    assert (np.ptp(points, axis=0) > [50, 25]).all()
