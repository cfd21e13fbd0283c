//! A loaded function: a built-in one, or a symbol of a user's library. Serves the path *job*, door 7. From the moment a
//! library is opened its code runs here, so this file runs in the SPE process only and never in the node's.
#![allow(unsafe_code)]

use std::{
    error::Error,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use protocol::{Reason, RecordFraming, Refusal};
use udf::{
    Function, FunctionError, Input, Output,
    abi::{self, NativeFunction, NativeVersion},
};

use super::{
    call_error::CallError, parts::SegmentPart, program::Program, python::LoadedPython, side_file_maps::MappedSideFiles,
};

/// Finds a built-in function by its name. The program that becomes an SPE brings its own list.
pub type FindBuiltIn = fn(&str) -> Option<Function>;

/// A function with its parameters, ready to be called (paper, 3.3: "The SPE then opens the dynamic libraries and
/// obtains the various processing functions").
pub(super) struct LoadedFunction {
    code: Code,
    parameters: Vec<(String, String)>,
    side: MappedSideFiles,
}

enum Code {
    BuiltIn(Function),
    Native(NativeFunction),
    Python(Box<LoadedPython>),
    Program(Program),
}

impl LoadedFunction {
    /// Finds a built-in function.
    pub(super) fn built_in(find: FindBuiltIn, name: &str, parameters: Vec<(String, String)>) -> Result<Self, Refusal> {
        let function = find(name).ok_or_else(|| {
            let message = format!(
                "there is no built-in function `{name}`: give one of those that exist, `lib.so:symbol`, \
                 `file.py:function` or `cmd:program`"
            );
            Refusal::new(Reason::NotFound, message)
        })?;
        Ok(Self::new(Code::BuiltIn(function), parameters))
    }

    /// Finds a function in a library file.
    pub(super) fn native(symbol: &str, parameters: Vec<(String, String)>, library: &Path) -> Result<Self, Refusal> {
        Ok(Self::new(Code::Native(open_symbol(library, symbol)?), parameters))
    }

    /// A function that its interpreter has loaded, with its parameters and side files.
    pub(super) fn python(function: LoadedPython) -> Self {
        Self::new(Code::Python(Box::new(function)), Vec::new())
    }

    /// A program that was found, with its side files.
    pub(super) fn program(program: Program, parameters: Vec<(String, String)>) -> Self {
        Self::new(Code::Program(program), parameters)
    }

    fn new(code: Code, parameters: Vec<(String, String)>) -> Self {
        Self { code, parameters, side: MappedSideFiles::default() }
    }

    /// The same function with side files, for a function that runs in this process.
    pub(super) fn with_side_files(self, side: MappedSideFiles) -> Self {
        Self { side, ..self }
    }

    /// Calls it over one segment of these parts, the first of which is `input`. A panic of a built-in function becomes
    /// its error; in a library, `udf::export!` does the same.
    pub(super) fn call(
        &mut self,
        input: Input<'_>,
        parts: &[SegmentPart<'_>],
        output: &mut Output<'_>,
    ) -> Result<(), CallError> {
        let input = input.with_parameters(&self.parameters).with_side_files(&self.side);
        let has_rows = parts.iter().any(|part| part.spec.records == RecordFraming::Parquet);
        if has_rows && !matches!(self.code, Code::Python(_)) {
            return Err(FunctionError::new(NO_ROWS).into());
        }
        match &mut self.code {
            Code::BuiltIn(function) => {
                catch_unwind(AssertUnwindSafe(|| function(&input, output))).unwrap_or_else(|panic| {
                    Err(FunctionError::new(format!("the function panicked: {}", abi::panic_message(&*panic))))
                })?;
                Ok(())
            }
            // SAFETY: the symbol comes from a library that declares this version of the header, and the library is
            // never closed. If the declaration is false, only this process suffers.
            Code::Native(function) => Ok(unsafe { abi::call(*function, &input, output) }?),
            Code::Python(function) => function.call(&input, parts, output),
            Code::Program(program) => program.call(&input, &self.parameters, output),
        }
    }
}

/// Only Python has a Parquet reader available.
const NO_ROWS: &str =
    "row groups of Parquet go to functions in Python alone: write one, or read the file with `--records file`";

/// Sends on what functions in this process have printed, and Rust or the C library still holds.
pub(super) fn flush_prints() {
    let _ = io::stdout().flush();
    // SAFETY: the C library has opened this stream before `main`. A library that has closed it may crash its own SPE.
    unsafe { libc::fflush(stdout) };
}

unsafe extern "C" {
    /// The C library's standard output, which it fills by the block where it is a pipe.
    static mut stdout: *mut libc::FILE;
}

/// Opens a library for good and finds a function in it.
fn open_symbol(file: &Path, symbol: &str) -> Result<NativeFunction, Refusal> {
    let refuse = |status, message: String| Refusal::new(status, format!("the function library {message}"));
    // SAFETY: its initialisers run here, which is what this process is for.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        refuse(Reason::Invalid, format!("cannot be loaded on this node: {}", loader_message(&error, file)))
    })?;
    // Never closed: threads or exit handlers of user code may still need it. A process loads at most one per stage.
    let library = Box::leak(Box::new(library));
    // SAFETY: the symbol has this type in every version of the header.
    let version = unsafe { library.get::<NativeVersion>(abi::VERSION_SYMBOL.as_bytes()) }.map_err(|_| {
        refuse(
            Reason::Invalid,
            format!(
                "has no symbol `{}`: use SECTOR_UDF_LIBRARY of sector_udf.h, or udf::export! in Rust",
                abi::VERSION_SYMBOL
            ),
        )
    })?;
    // SAFETY: it takes nothing and returns a number.
    let version = unsafe { version() };
    if version != abi::ABI_VERSION {
        let ours = abi::ABI_VERSION;
        let message = format!(
            "was built for version {version} of the function interface, and this node speaks version {ours}: build it anew"
        );
        return Err(refuse(Reason::Invalid, message));
    }
    // SAFETY: a library of this version exports functions of this type alone.
    let function = unsafe { library.get::<NativeFunction>(symbol.as_bytes()) }.map_err(|_| {
        refuse(
            Reason::NotFound,
            format!("has no symbol `{symbol}`: check the name after the colon, and that it is exported"),
        )
    })?;
    Ok(*function)
}

/// The loader's own message, without the path where this node keeps the library.
fn loader_message(error: &libloading::Error, file: &Path) -> String {
    let message = error.source().map_or_else(|| error.to_string(), |source| source.to_string());
    message.replace(&*file.to_string_lossy(), "the file")
}
