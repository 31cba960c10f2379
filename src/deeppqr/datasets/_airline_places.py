"""The 60 areas and 12 carriers of the airline data, in the order of the files' codes."""

from typing import NamedTuple


class Place(NamedTuple):
    """A composite statistical area: its airports and where they lie on average."""

    name: str
    airports: str
    latitude: float
    longitude: float


# Code 1 first. The paper's table of areas gives names and airports, left column first.
PLACES = (
    Place("Albuquerque", "ABQ", 35.04, -106.61),
    Place("Albany", "ALB", 42.75, -73.80),
    Place("Anchorage", "ANC", 61.17, -150.00),
    Place("Atlanta", "ATL", 33.64, -84.43),
    Place("Austin", "AUS", 30.19, -97.67),
    Place("Hartford", "BDL", 41.94, -72.68),
    Place("Birmingham", "BHM", 33.56, -86.75),
    Place("Nashville", "BNA", 36.12, -86.68),
    Place("Boise", "BOI", 43.56, -116.22),
    Place("Boston", "BOS MHT PVD", 42.34, -71.29),
    Place("Buffalo", "BUF", 42.94, -78.73),
    Place("Los Angeles", "LAX ONT SNA BUR", 33.97, -118.06),
    Place("Washington DC", "IAD DCA BWI", 38.99, -77.06),
    Place("Cleveland", "CLE", 41.41, -81.85),
    Place("Charlotte", "CLT", 35.21, -80.95),
    Place("Columbus", "CMH", 40.00, -82.89),
    Place("Cincinnati", "CVG", 39.05, -84.67),
    Place("Dallas", "DFW DAL", 32.87, -96.94),
    Place("Denver", "DEN", 39.86, -104.67),
    Place("Detroit", "DTW", 42.21, -83.35),
    Place("El Paso", "ELP", 31.81, -106.38),
    Place("New York", "JFK LGA EWR", 40.70, -73.94),
    Place("Miami", "MIA FLL", 25.93, -80.22),
    Place("Spokane", "GEG", 47.62, -117.54),
    Place("Honolulu", "HNL", 21.32, -157.92),
    Place("Houston", "IAH HOU", 29.82, -95.31),
    Place("Indianapolis", "IND", 39.72, -86.29),
    Place("Jacksonville", "JAX", 30.49, -81.69),
    Place("Las Vegas", "LAS", 36.08, -115.15),
    Place("Kansas City", "MCI", 39.30, -94.71),
    Place("Orlando", "MCO", 28.43, -81.31),
    Place("Chicago", "ORD MDW", 41.88, -87.83),
    Place("Memphis", "MEM", 35.04, -89.98),
    Place("Milwaukee", "MKE", 42.95, -87.90),
    Place("Minneapolis-St. Paul", "MSP", 44.88, -93.22),
    Place("New Orleans", "MSY", 29.99, -90.26),
    Place("San Francisco", "SFO SJC OAK", 37.57, -122.18),
    Place("Kahului", "OGG", 20.90, -156.43),
    Place("Oklahoma City", "OKC", 35.39, -97.60),
    Place("Omaha", "OMA", 41.30, -95.89),
    Place("Norfolk", "ORF", 36.90, -76.20),
    Place("Palm Beach", "PBI", 26.68, -80.10),
    Place("Portland", "PDX", 45.59, -122.60),
    Place("Philadelphia", "PHL", 39.87, -75.24),
    Place("Phoenix", "PHX", 33.43, -112.01),
    Place("Pittsburgh", "PIT", 40.49, -80.23),
    Place("Raleigh-Durham", "RDU", 35.88, -78.79),
    Place("Reno", "RNO", 39.50, -119.77),
    Place("Southwest Florida", "RSW", 26.54, -81.76),
    Place("San Diego", "SAN", 32.73, -117.19),
    Place("San Antonio", "SAT", 29.53, -98.47),
    Place("Louisville", "SDF", 38.17, -85.74),
    Place("Seattle", "SEA", 47.45, -122.31),
    Place("San Juan", "SJU", 18.44, -66.00),
    Place("Salt Lake City", "SLC", 40.79, -111.98),
    Place("Sacramento", "SMF", 38.70, -121.59),
    Place("St. Louis", "STL", 38.75, -90.37),
    Place("Tampa", "TPA", 27.98, -82.53),
    Place("Tulsa", "TUL", 36.20, -95.89),
    Place("Tucson", "TUS", 32.12, -110.94),
)

# Code 1 first.
CARRIERS = {
    "AA": "American",
    "AS": "Alaska",
    "B6": "JetBlue",
    "CO": "Continental",
    "DL": "Delta",
    "HP": "America West",
    "NW": "Northwest",
    "OTHER": "all other carriers",
    "TW": "TWA",
    "UA": "United",
    "US": "US Airways",
    "WN": "Southwest",
}
