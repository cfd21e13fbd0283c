//! Systems that take turns at the same work, round by round. A peer that fails or answers wrongly is left out with the
//! reason; where ours does, the comparison ends.

use crate::{
    compare::report::{Missing, Row},
    figures::timed,
};

/// What is run once in each round, or after it.
pub(crate) type Action<'a> = Box<dyn Fn() -> Result<(), String> + 'a>;

/// A system at one piece of work.
pub(crate) struct Contender<'a> {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// What is measured.
    pub(crate) work: Action<'a>,
    /// Whether the work was right; removes what it has left behind.
    pub(crate) check: Action<'a>,
}

/// Lets all have their turn in each round, ours first in the list. Each round begins with another one: who comes second
/// finds what the first has left behind. A peer whose first turn takes over a minute has no other. `prepare` runs before
/// each turn, and is not measured.
pub(crate) fn take_turns(
    contenders: &[Contender<'_>],
    rounds: usize,
    prepare: impl Fn() -> Result<(), String>,
) -> Result<(Vec<Row>, Vec<Missing>), String> {
    let mut rows: Vec<Row> =
        contenders.iter().map(|contender| Row { name: contender.name, values: Vec::new() }).collect();
    let mut failures: Vec<Option<String>> = vec![None; contenders.len()];
    for round in 0..rounds {
        for turn in 0..contenders.len() {
            let at = (turn + round) % contenders.len();
            let is_slow = at > 0 && rows[at].values.first().is_some_and(|seconds| *seconds > SLOW_S);
            if failures[at].is_some() || is_slow {
                continue;
            }
            let contender = &contenders[at];
            prepare()?;
            let outcome = timed(&contender.work).and_then(|seconds| (contender.check)().map(|()| seconds));
            match outcome {
                Ok(seconds) => {
                    println!("  round {} {:26} {seconds:8.2} s", round + 1, contender.name);
                    rows[at].values.push(seconds);
                }
                Err(reason) if at == 0 => return Err(reason),
                Err(reason) => {
                    println!("  round {} {:26} failed: {reason}", round + 1, contender.name);
                    failures[at] = Some(reason);
                }
            }
        }
    }
    let (mut measured, mut missing) = (Vec::new(), Vec::new());
    for (row, failure) in rows.into_iter().zip(failures) {
        match failure {
            None => measured.push(row),
            Some(reason) => missing.push(Missing { name: row.name.into(), reason }),
        }
    }
    Ok((measured, missing))
}

/// Seconds after which a second turn of a peer would say little, and take long.
const SLOW_S: f64 = 60.0;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn each_round_begins_with_another_and_who_fails_is_left_out_with_the_reason() {
        let order = RefCell::new(String::new());
        let order = &order;
        let contender = |name: &'static str, fails: bool| Contender {
            name,
            work: Box::new(move || {
                order.borrow_mut().push_str(name);
                Ok(())
            }),
            check: Box::new(move || if fails { Err("a wrong answer".into()) } else { Ok(()) }),
        };
        let all = [contender("a", false), contender("b", true), contender("c", false)];
        let (rows, missing) = take_turns(&all, 3, || Ok(())).expect("measured");
        assert_eq!(*order.borrow(), "abccaca");
        let measured: Vec<_> = rows.iter().map(|row| (row.name, row.values.len())).collect();
        assert_eq!(measured, [("a", 3), ("c", 3)]);
        assert_eq!(missing, [Missing { name: "b".into(), reason: "a wrong answer".into() }]);

        let ours = [contender("a", true), contender("b", false)];
        assert_eq!(take_turns(&ours, 1, || Ok(())).map(drop), Err("a wrong answer".into()));
    }
}
