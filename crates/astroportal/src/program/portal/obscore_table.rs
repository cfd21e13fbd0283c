//! Rows of the index as a table of ObsCore (1.1, table 5) that clients of SIA read. It never invents a value: what the
//! index does not know is empty.

use astroportal::obscore::ImageRow;
use vo::votable::{Cell, Datatype, Field};

const fn text(name: &'static str, ucd: &'static str, utype: &'static str) -> Field {
    Field { name, datatype: Datatype::Text, ucd, utype, unit: "", xtype: "" }
}

const fn real(name: &'static str, unit: &'static str, ucd: &'static str, utype: &'static str) -> Field {
    Field { name, datatype: Datatype::Double, ucd, utype, unit, xtype: "" }
}

const fn whole(name: &'static str, ucd: &'static str, utype: &'static str) -> Field {
    Field { name, datatype: Datatype::Long, ucd, utype, unit: "", xtype: "" }
}

/// The columns.
pub(super) const FIELDS: &[Field] = &[
    text("dataproduct_type", "meta.code.class", "ObsDataset.dataProductType"),
    Field {
        name: "calib_level",
        datatype: Datatype::Int,
        ucd: "meta.code;obs.calib",
        utype: "ObsDataset.calibLevel",
        unit: "",
        xtype: "",
    },
    text("obs_collection", "meta.id", "DataID.collection"),
    text("obs_id", "meta.id", "DataID.observationID"),
    text("obs_publisher_did", "meta.ref.uri;meta.curation", "Curation.publisherDID"),
    text("access_url", "meta.ref.url", "Access.reference"),
    text("access_format", "meta.code.mime", "Access.format"),
    Field {
        name: "access_estsize",
        datatype: Datatype::Long,
        ucd: "phys.size;meta.file",
        utype: "Access.size",
        unit: "kbyte",
        xtype: "",
    },
    text("target_name", "meta.id;src", "Target.name"),
    real("s_ra", "deg", "pos.eq.ra", "Char.SpatialAxis.Coverage.Location.Coord.Position2D.Value2.C1"),
    real("s_dec", "deg", "pos.eq.dec", "Char.SpatialAxis.Coverage.Location.Coord.Position2D.Value2.C2"),
    real("s_fov", "deg", "phys.angSize;instr.fov", "Char.SpatialAxis.Coverage.Bounds.Extent.diameter"),
    Field {
        name: "s_region",
        datatype: Datatype::Text,
        ucd: "pos.outline;obs.field",
        utype: "Char.SpatialAxis.Coverage.Support.Area",
        unit: "",
        xtype: "adql:REGION",
    },
    real("s_resolution", "arcsec", "pos.angResolution", "Char.SpatialAxis.Resolution.Refval.value"),
    whole("s_xel1", "meta.number", "Char.SpatialAxis.numBins1"),
    whole("s_xel2", "meta.number", "Char.SpatialAxis.numBins2"),
    real("t_min", "d", "time.start;obs.exposure", "Char.TimeAxis.Coverage.Bounds.Limits.StartTime"),
    real("t_max", "d", "time.end;obs.exposure", "Char.TimeAxis.Coverage.Bounds.Limits.StopTime"),
    real("t_exptime", "s", "time.duration;obs.exposure", "Char.TimeAxis.Coverage.Support.Extent"),
    real("t_resolution", "s", "time.resolution", "Char.TimeAxis.Resolution.Refval.value"),
    whole("t_xel", "meta.number", "Char.TimeAxis.numBins"),
    real("em_min", "m", "em.wl;stat.min", "Char.SpectralAxis.Coverage.Bounds.Limits.LoLimit"),
    real("em_max", "m", "em.wl;stat.max", "Char.SpectralAxis.Coverage.Bounds.Limits.HiLimit"),
    real("em_res_power", "", "spect.resolution", "Char.SpectralAxis.Resolution.ResolPower.refVal"),
    whole("em_xel", "meta.number", "Char.SpectralAxis.numBins"),
    text("o_ucd", "meta.ucd", "Char.ObservableAxis.ucd"),
    text("pol_states", "meta.code;phys.polarization", "Char.PolarizationAxis.stateList"),
    whole("pol_xel", "meta.number", "Char.PolarizationAxis.numBins"),
    text("facility_name", "meta.id;instr.tel", "Provenance.ObsConfig.Facility.name"),
    text("instrument_name", "meta.id;instr", "Provenance.ObsConfig.Instrument.name"),
    real("s_pixel_scale", "arcsec", "phys.angSize;instr.pixel", "Char.SpatialAxis.Sampling.RefVal.SamplingPeriod"),
    text("filter", "meta.id;instr.filter", ""),
    text("extname", "meta.id", ""),
];

/// A row. Where its file is, DataLink says.
pub(super) fn cells(row: &ImageRow, access_url: String) -> Vec<Cell> {
    let text = |text: &Option<String>| Cell::from(text.as_deref());
    vec![
        text(&row.dataproduct_type),
        row.calib_level.into(),
        row.obs_collection.as_str().into(),
        row.obs_id.as_str().into(),
        row.obs_publisher_did.as_str().into(),
        access_url.into(),
        super::datalink::MEDIA_TYPE.into(),
        row.access_estsize.into(),
        text(&row.target_name),
        row.s_ra.into(),
        row.s_dec.into(),
        row.s_fov.into(),
        text(&row.s_region),
        Cell::Null,
        row.s_xel1.into(),
        row.s_xel2.into(),
        row.t_min.into(),
        row.t_max.into(),
        row.t_exptime.into(),
        Cell::Null,
        Cell::Null,
        row.em_min.into(),
        row.em_max.into(),
        Cell::Null,
        Cell::Null,
        Cell::Null,
        Cell::Null,
        Cell::Null,
        text(&row.facility_name),
        text(&row.instrument_name),
        row.s_pixel_scale.into(),
        text(&row.filter),
        text(&row.extname),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_value_for_each_column() {
        assert_eq!(cells(&ImageRow::default(), String::new()).len(), FIELDS.len());
    }
}
