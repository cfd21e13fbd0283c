//! The integer that stands for no value in a column (`TNULLn`; FITS 4.0, 7.3.2). It never is one that a row has.

/// How a type's integers are tried.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tried {
    /// From the smallest on, which few columns have.
    Upwards(i64),
    /// From the largest on: of bytes, 0 is common.
    Downwards(i64),
}

/// An integer that no row has, of the type's from `tried` to `last`. `None` if all are there.
pub(super) fn free(values: impl Iterator<Item = i64>, tried: Tried, last: i64) -> Option<i64> {
    let (first, step) = match tried {
        Tried::Upwards(first) => (first, 1),
        Tried::Downwards(first) => (first, -1),
    };
    let mut taken: Vec<_> = values.collect();
    taken.sort_unstable();
    if step < 0 {
        taken.reverse();
    }
    let mut candidate = Some(first);
    for value in taken {
        if Some(value) == candidate {
            candidate = (value != last).then(|| value + step);
        }
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_is_the_first_integer_that_no_row_has() {
        let (up, down) = (Tried::Upwards(-3), Tried::Downwards(3));
        assert_eq!(free([0, 1].into_iter(), up, 3), Some(-3));
        assert_eq!(free([-2, -3, -3, 0].into_iter(), up, 3), Some(-1));
        assert_eq!(free([3, 2, 0].into_iter(), down, -3), Some(1));
        assert_eq!(free([i64::MIN, i64::MAX].into_iter(), Tried::Upwards(i64::MIN), i64::MAX), Some(i64::MIN + 1));
        assert_eq!(free(-3..=3, up, 3), None);
        assert_eq!(free(-3..=3, down, -3), None);
    }
}
