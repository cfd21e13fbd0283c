//! Cross-match: the pairs of rows of two catalogues that lie near each other on the sky. It is done by zones of
//! declination (Gray, Nieto-Santisteban and Szalay, MSR-TR-2006-52; GrayWulf, SkyQuery). The sky is cut into strips. Of each strip the
//! second catalogue is held in memory, sorted by zone and right ascension, and the first one passes by. It never forms
//! a pair twice, since each belongs to the strip of its row of the first catalogue.

mod function;
mod match_codec;
mod match_exec;
mod match_table;
mod position_columns;
mod strip_plans;
mod strips;
mod zone_index;
mod zones_join;
mod zones_planner;

pub(crate) use function::CrossMatchFunction;
pub(crate) use match_codec::MatchCodec;
pub(crate) use match_exec::{Keep, MatchExec};
pub(crate) use match_table::MatchTable;
pub(crate) use position_columns::PositionColumns;
pub(crate) use zones_join::ZonesJoinRule;
pub(crate) use zones_planner::ZonesPlanner;
