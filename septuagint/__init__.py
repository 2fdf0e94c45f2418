"""Septuagint trains neural machine translation on the machines people really have."""

__version__ = "0.1.0"
