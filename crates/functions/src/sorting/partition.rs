//! `partition`: the first stage of a distributed sort; it "places each element in a proper bucket" (Sector/Sphere
//! paper, Figure 3). All keys of a bucket are below those of the next. Serves terasort. It never sorts within a
//! bucket.

use udf::{FunctionError, Input, Output};

use crate::{
    batch::BATCH_BYTES,
    sorting::{cuts::Cuts, key::KeyRange},
};

/// Emits each record to the bucket of its key. Parameter `cuts`: [`Cuts`] in hexadecimal, one fewer than there are
/// buckets. Parameter `key`.
pub(crate) fn partition(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let (key, record_bytes) = KeyRange::of_fixed("partition", input)?;
    let cuts: Cuts = input
        .required_parameter("cuts")?
        .parse()
        .map_err(|error| FunctionError::new(format!("the parameter `cuts` cannot be used: {error}")))?;
    let (found, wanted) = (cuts.keys().len(), input.buckets() as usize - 1);
    if found != wanted {
        return Err(FunctionError::new(format!(
            "{found} cuts do not divide keys into {} buckets: give {wanted}",
            input.buckets()
        )));
    }
    let table = cuts.table();
    let part_bytes = (BATCH_BYTES / record_bytes).max(1) * record_bytes;
    let mut done = 0;
    for part in input.bytes().chunks(part_bytes) {
        for record in part.chunks_exact(record_bytes) {
            let key = &record[key.offset..key.offset + key.length];
            output.emit(table.bucket(key), record)?;
        }
        done += part.len() as u64;
        output.progress(done);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::RecordFormat;

    use crate::testing::{random_bytes, run};

    #[test]
    fn every_record_lands_between_its_cuts_in_its_order() {
        let bytes = random_bytes(5, 30 * 4_000);
        let parameters = [("cuts", "2000,20ff33,21,8899aabbccddeeff0011,f0"), ("key", "3:10")];
        let result = run("partition", &bytes, RecordFormat::Fixed(30), 6, &parameters).unwrap();
        let cuts: [&[u8]; 5] = [
            &[0x20, 0x00],
            &[0x20, 0xff, 0x33],
            &[0x21],
            &[0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00, 0x11],
            &[0xf0],
        ];
        for bucket in 0..6 {
            let slow: Vec<u8> = bytes
                .chunks(30)
                .filter(|record| cuts.iter().filter(|cut| **cut <= &record[3..13]).count() == bucket)
                .flatten()
                .copied()
                .collect();
            assert_eq!(result.bucket(bucket as u64), slow, "bucket {bucket}");
        }
        assert_eq!((result.records, result.bytes_done), (4_000, 120_000));
    }

    #[test]
    fn a_wrong_number_of_cuts_is_refused() {
        let message = |buckets, cuts: &str| {
            run("partition", b"", RecordFormat::Fixed(10), buckets, &[("cuts", cuts)]).unwrap_err().message().to_owned()
        };
        assert_eq!(message(4, "10,20"), "2 cuts do not divide keys into 4 buckets: give 3");
        assert!(message(2, "zz").contains("hexadecimal"));
        let missing = run("partition", b"", RecordFormat::Fixed(10), 1, &[]).unwrap_err();
        assert!(missing.message().contains("--param cuts"), "{missing}");
        assert!(run("partition", &[7; 20], RecordFormat::Fixed(10), 1, &[("cuts", "")]).is_ok());
    }
}
