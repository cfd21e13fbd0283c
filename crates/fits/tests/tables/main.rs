//! Tables of files: written and read again, made by hand as others write them, and what strangers' files try.

mod by_hand;
mod hostile;
mod made_table;
mod round_trip;
