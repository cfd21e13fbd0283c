//! Cutouts of images that the tests make: pixels, headers, positions, and what strangers' files try. Python's tests hold
//! the same against astropy, with files that others wrote (`tests/python/test_images.py`).

mod cutting;
mod hostile;
mod made_file;
mod planes;
mod projections;
