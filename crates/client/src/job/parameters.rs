//! Parameters of a job's functions: given for all stages or for one, and refused where no function knows them. Built-in
//! functions declare theirs, and libraries may; one in Python, or a program, may know any. It never looks at a value.

use std::str::FromStr;

use protocol::{
    built_in::{self, BuiltIn},
    message::spe::{FunctionCode, FunctionSpec},
};

use crate::ClientError;

/// A parameter as a person gives it: `NAME=VALUE`, or `STAGE:NAME=VALUE` for the function of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The stage, from 0; `None` for the functions of all stages.
    pub stage: Option<usize>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl FromStr for Parameter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write NAME=VALUE, or STAGE:NAME=VALUE for one stage, counted from 0";
        let (name, value) = text.split_once('=').ok_or(form)?;
        let (stage, name) = match name.split_once(':') {
            Some((stage, name)) if stage.bytes().all(|byte| byte.is_ascii_digit()) => {
                (Some(stage.parse().map_err(|_| form)?), name)
            }
            _ => (None, name),
        };
        if name.is_empty() {
            return Err(form.into());
        }
        Ok(Self { stage, name: name.to_owned(), value: value.to_owned() })
    }
}

/// Gives each function its parameters: those for all stages where the function may know them, then its own. The last
/// value of a name counts.
///
/// # Errors
/// `Usage` for a parameter that no function knows, or not that of its stage, and for a stage that there is not.
pub fn distribute(given: &[Parameter], functions: &mut [FunctionSpec]) -> Result<(), ClientError> {
    for Parameter { name, value, .. } in given.iter().filter(|parameter| parameter.stage.is_none()) {
        let mut knows = false;
        for function in functions.iter_mut().filter(|function| may_know(&function.code, name)) {
            function.parameters.push((name.clone(), value.clone()));
            knows = true;
        }
        if !knows {
            let known: Vec<_> = functions.iter().map(|function| known_text(&function.code)).collect();
            let message = format!("no function of the job has a parameter `{name}`: {}", known.join("; "));
            return Err(ClientError::Usage(message));
        }
    }
    let stages = functions.len();
    for Parameter { stage, name, value } in given {
        let Some(stage) = *stage else { continue };
        let Some(function) = functions.get_mut(stage) else {
            let message =
                format!("the parameter `{stage}:{name}` is for a stage that the job does not have: {stages}, from 0");
            return Err(ClientError::Usage(message));
        };
        check_name(stage, &function.code, name)?;
        function.parameters.push((name.clone(), value.clone()));
    }
    Ok(())
}

/// Refuses a parameter that a stage's function does not know, and reductions that are not what they seem.
pub(super) fn check<'a>(functions: impl Iterator<Item = &'a FunctionSpec>) -> Result<(), ClientError> {
    let mut before: Option<&FunctionSpec> = None;
    for (stage, function) in functions.enumerate() {
        for (name, _) in &function.parameters {
            check_name(stage, &function.code, name)?;
        }
        if stage == 1
            && before == Some(function)
            && function.code == FunctionCode::BuiltIn(built_in::REDUCE.into())
            && value_of(function, "reduction") == Some("count")
        {
            return Err(ClientError::Usage(
                "stage 1 would count what stage 0 has counted: one stage of `reduce` is enough, or give stage 1 \
                 `reduction=sum`"
                    .into(),
            ));
        }
        before = Some(function);
    }
    Ok(())
}

fn value_of<'a>(function: &'a FunctionSpec, name: &str) -> Option<&'a str> {
    function.parameters.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn check_name(stage: usize, code: &FunctionCode, name: &str) -> Result<(), ClientError> {
    if may_know(code, name) {
        return Ok(());
    }
    let message = format!("stage {stage} has no parameter `{name}`: {}", known_text(code));
    Err(ClientError::Usage(message))
}

fn may_know(code: &FunctionCode, name: &str) -> bool {
    declared(code).is_none_or(|known| known.contains(&name))
}

/// The parameters that a function declares.
fn declared(code: &FunctionCode) -> Option<Vec<&str>> {
    match code {
        FunctionCode::BuiltIn(name) => BuiltIn::find(name)?.parameters.map(<[_]>::to_vec),
        FunctionCode::Native { library, symbol } => declared_in(library, symbol),
        FunctionCode::Python(_) | FunctionCode::Program { .. } => None,
    }
}

/// The parameters that a library declares for one of its functions. It is a text among its bytes (`udf::export!`,
/// `sector_udf.h`), since nobody runs a library here.
fn declared_in<'a>(library: &'a [u8], symbol: &str) -> Option<Vec<&'a str>> {
    let mark = format!("\x01sector udf parameters {symbol}=");
    let starts = library.iter().enumerate().filter(|(_, byte)| **byte == 1);
    let text = starts.filter_map(|(at, _)| library.get(at..)).find_map(|rest| rest.strip_prefix(mark.as_bytes()))?;
    let end = text.iter().take(DECLARED_BYTES_MAX).position(|byte| *byte == 1)?;
    let names = str::from_utf8(text.get(..end)?).ok()?;
    Some(names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect())
}

fn known_text(code: &FunctionCode) -> String {
    let name = code.name();
    match declared(code) {
        Some(known) if known.is_empty() => format!("`{name}` takes none"),
        Some(known) => format!("`{name}` knows {}", known.join(", ")),
        None => format!("`{name}` may know any"),
    }
}

/// Most bytes of the names that a library declares for a function.
const DECLARED_BYTES_MAX: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn built_in(name: &str) -> FunctionSpec {
        FunctionSpec { code: FunctionCode::BuiltIn(name.into()), parameters: vec![] }
    }

    fn distributed(given: &[&str], functions: &[FunctionSpec]) -> Result<Vec<String>, String> {
        let given: Vec<Parameter> = given.iter().map(|text| text.parse().unwrap()).collect();
        let mut functions = functions.to_vec();
        distribute(&given, &mut functions).map_err(|error| error.to_string())?;
        check(functions.iter()).map_err(|error| error.to_string())?;
        let text = |function: &FunctionSpec| {
            let each = function.parameters.iter().map(|(name, value)| format!("{name}={value}"));
            each.collect::<Vec<_>>().join(" ")
        };
        Ok(functions.iter().map(text).collect())
    }

    #[test]
    fn a_parameter_is_for_all_stages_or_for_the_one_before_its_colon() {
        let parse = |text: &str| text.parse::<Parameter>().map(|found| (found.stage, found.name, found.value));
        assert_eq!(parse("a=b=c"), Ok((None, "a".into(), "b=c".into())));
        assert_eq!(parse("12:key=column:2"), Ok((Some(12), "key".into(), "column:2".into())));
        assert_eq!(parse("head:3=x"), Ok((None, "head:3".into(), "x".into())));
        for wrong in ["a", "=b", "1:=b", ":a=b", "99999999999999999999999:a=b"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_function_gets_what_it_may_know_and_then_its_own() {
        let program = FunctionSpec { code: FunctionCode::Program { words: vec!["tr".into()] }, parameters: vec![] };
        let stages = [program.clone(), built_in("hash"), built_in("reduce")];
        let given = ["2:reduction=sum", "key=column:1", "2:key=column:3"];
        let expected = ["key=column:1", "key=column:1", "key=column:1 reduction=sum key=column:3"];
        assert_eq!(distributed(&given, &stages), Ok(expected.map(str::to_owned).to_vec()));
        assert_eq!(distributed(&["typo=1"], &[program]), Ok(vec!["typo=1".into()]), "a program may know any");
    }

    #[test]
    fn a_parameter_that_no_function_knows_is_refused_with_those_that_are_known() {
        let stages = [built_in("hash"), built_in("copy")];
        let error = distributed(&["typo=1"], &stages).unwrap_err();
        assert_eq!(
            error,
            "no function of the job has a parameter `typo`: `hash` knows key, separator; `copy` takes none"
        );
        let error = distributed(&["1:key=0:1"], &stages).unwrap_err();
        assert_eq!(error, "stage 1 has no parameter `key`: `copy` takes none");
        assert!(distributed(&["2:key=0:1"], &stages).unwrap_err().contains("2, from 0"));
    }

    #[test]
    fn what_a_library_declares_is_read_from_its_bytes() {
        let library =
            b"\x7fELF\x01sector udf parameters f=shortest,longest,\x01\x01sector udf parameters g=\x01".to_vec();
        let known = |symbol: &str| declared_in(&library, symbol);
        assert_eq!(known("f"), Some(vec!["shortest", "longest"]));
        assert_eq!((known("g"), known("h")), (Some(vec![]), None));
        let code = FunctionCode::Native { library: library.clone(), symbol: "f".into() };
        let stages = [FunctionSpec { code, parameters: vec![] }];
        assert!(distributed(&["typo=1"], &stages).unwrap_err().contains("`f` knows shortest, longest"));
        assert!(distributed(&["shortest=1"], &stages).is_ok());
    }

    #[test]
    fn counts_are_not_counted_by_mistake() {
        let stages = [built_in("reduce"), built_in("reduce")];
        assert!(distributed(&["reduction=count"], &stages).unwrap_err().contains("reduction=sum"));
        assert!(distributed(&["reduction=max"], &stages).is_ok());
        assert!(distributed(&["reduction=count", "1:reduction=sum"], &stages).is_ok());
    }
}
