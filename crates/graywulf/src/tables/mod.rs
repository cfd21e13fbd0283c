//! What a table is: a folder with a description, `table.json`, and Parquet slices, which are whole files of the cloud
//! (GrayWulf, section 5). The description names the slices, so that a load appears at once or not at all. It never
//! reads or writes a row.

mod column_type;
mod description;
mod folder;
mod layout;

pub(crate) use column_type::{parse_type, type_name};
pub(crate) use description::{ColumnDescription, SliceDescription, TableDescription};
pub(crate) use folder::{DESCRIPTION_NAME, SLICES_NAME, TableFolder, not_a_table};
pub(crate) use layout::Layout;
