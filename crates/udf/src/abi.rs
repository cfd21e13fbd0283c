//! The C ABI between a user's library and an SPE, both sides of it. [`enter`] implements the library's symbols, and
//! [`call`] is used by the SPE. It serves the path *job*, door 7; `include/sector_udf.h` is the same in C and
//! explains it. The layout of the structures is the interface: within a version they only grow at their end. Only
//! this file of the crate has `unsafe`, and a panic never unwinds into the other side.
#![allow(unsafe_code)]

use std::{
    any::Any,
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    slice,
};

use crate::{Beside, Function, FunctionError, Input, Output, Parameters, RecordFormat, SideFiles, Sink, Stopped};

/// The version of the interface, as `sector_udf_abi_version()` of a library tells it.
pub const ABI_VERSION: u32 = 1;

/// The symbol that returns the version; its type is [`NativeVersion`].
pub const VERSION_SYMBOL: &str = "sector_udf_abi_version";

/// The type of [`VERSION_SYMBOL`].
pub type NativeVersion = unsafe extern "C" fn() -> u32;

/// The type of a function's symbol.
pub type NativeFunction = unsafe extern "C" fn(*const SectorInput, *mut SectorOutput) -> i32;

/// `sector_input` of the header.
#[repr(C)]
#[derive(Debug)]
pub struct SectorInput {
    struct_bytes: u32,
    record_format: u32,
    bytes: *const u8,
    length: u64,
    path: *const c_char,
    segment: u64,
    from: u64,
    record_bytes: u32,
    buckets: u32,
    parameter: unsafe extern "C" fn(*const SectorInput, *const c_char) -> *const c_char,
    host: *const c_void,
    stream_bytes: u32,
    stream_count: u32,
    streams: *const SectorStream,
    side_file: unsafe extern "C" fn(*const SectorInput, *const c_char, *mut u64) -> *const u8,
}

/// `sector_stream` of the header.
#[repr(C)]
#[derive(Debug)]
pub struct SectorStream {
    bytes: *const u8,
    length: u64,
    path: *const c_char,
    from: u64,
    record_format: u32,
    record_bytes: u32,
    starts: *const u64,
    record_count: u64,
}

/// `sector_output` of the header.
#[repr(C)]
#[derive(Debug)]
pub struct SectorOutput {
    struct_bytes: u32,
    reserved: u32,
    emit: unsafe extern "C" fn(*mut SectorOutput, u64, *const c_void, u64) -> i32,
    emit_records: unsafe extern "C" fn(*mut SectorOutput, u64, *const c_void, u64, u64) -> i32,
    progress: unsafe extern "C" fn(*mut SectorOutput, u64),
    fail: unsafe extern "C" fn(*mut SectorOutput, u64, *const c_char),
    host: *mut c_void,
    count: unsafe extern "C" fn(*mut SectorOutput, *const c_char, u64),
}

/// The host's side: calls a function of a library over one segment.
///
/// # Safety
/// `function` must be a symbol of a loaded library that conforms to the header of version [`ABI_VERSION`]. Nothing
/// can check that; this is why an SPE is a process of its own.
pub unsafe fn call(function: NativeFunction, input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let host_input = HostInput { input, given: RefCell::new(Vec::new()) };
    let (bytes, format, path) = (input.bytes(), input.format(), input.path());
    let own = Beside { bytes, format, path, from: input.from(), starts: input.starts() };
    let parts: Vec<_> = std::iter::once(&own).chain(input.beside()).collect();
    let paths = parts.iter().map(|part| CString::new(part.path)).collect::<Result<Vec<_>, _>>();
    let paths = paths.map_err(|_| FunctionError::new("the path contains NUL"))?;
    let streams: Vec<_> = parts.iter().zip(&paths).map(|(part, path)| host_stream(part, path)).collect();
    let SectorStream { path, record_format, record_bytes, .. } = streams[0];
    let raw_input = SectorInput {
        struct_bytes: size_of::<SectorInput>() as u32,
        record_format,
        bytes: input.bytes().as_ptr(),
        length: input.bytes().len() as u64,
        path,
        segment: input.segment(),
        from: input.from(),
        record_bytes,
        buckets: input.buckets(),
        parameter: host_parameter,
        host: (&raw const host_input).cast(),
        stream_bytes: size_of::<SectorStream>() as u32,
        stream_count: streams.len() as u32,
        streams: streams.as_ptr(),
        side_file: host_side_file,
    };
    let mut host_output = HostOutput { output, failure: None };
    let mut raw_output = SectorOutput {
        struct_bytes: size_of::<SectorOutput>() as u32,
        reserved: 0,
        emit: host_emit,
        emit_records: host_emit_records,
        progress: host_progress,
        fail: host_fail,
        host: (&raw mut host_output).cast(),
        count: host_count,
    };
    // SAFETY: the function conforms to the header (the caller's promise). Both structures and what they point to live
    // until it has returned.
    let code = unsafe { function(&raw const raw_input, &raw mut raw_output) };
    match (code, host_output.failure) {
        (0, None) => Ok(()),
        (_, Some(failure)) => Err(failure),
        (code, None) => Err(FunctionError::new(format!("the function returned {code}"))),
    }
}

/// A stream's part of a segment as C sees it; it points into `part` and `path`.
fn host_stream(part: &Beside<'_>, path: &CString) -> SectorStream {
    let (record_format, record_bytes) = match part.format {
        RecordFormat::File => (RECORDS_FILE, 0),
        RecordFormat::Fixed(record_bytes) => (RECORDS_FIXED, record_bytes),
        RecordFormat::Lines => (RECORDS_LINES, 0),
        RecordFormat::Index => (RECORDS_INDEX, 0),
    };
    SectorStream {
        bytes: part.bytes.as_ptr(),
        length: part.bytes.len() as u64,
        path: path.as_ptr(),
        from: part.from,
        record_format,
        record_bytes,
        starts: if part.starts.is_empty() { std::ptr::null() } else { part.starts.as_ptr() },
        record_count: part.starts.len().saturating_sub(1) as u64,
    }
}

/// The library's side: what an exported symbol does (see [`export!`](crate::export)).
///
/// # Safety
/// The pointers must be those that the host gave to the symbol.
pub unsafe fn enter(input: *const SectorInput, output: *mut SectorOutput, function: Function) -> i32 {
    // SAFETY: the host's pointers are valid for the call.
    let (raw_input, mut sink) = unsafe { (&*input, LibrarySink(&mut *output)) };
    let is_old = (sink.0.struct_bytes as usize) < size_of::<SectorOutput>();
    let result = catch_unwind(AssertUnwindSafe(|| {
        if is_old {
            return Err(FunctionError::new(OLD_HOST));
        }
        // SAFETY: as above; the streams outlive the function.
        let parts = unsafe { library_parts(raw_input)? };
        let (own, beside) = parts.split_first().ok_or_else(|| FunctionError::new("the segment has no stream"))?;
        let input = Input::new(own.bytes, own.format)
            .at(own.path, raw_input.segment, own.from)
            .with_buckets(raw_input.buckets)
            .with_parameters(raw_input)
            .with_side_files(raw_input)
            .with_starts(own.starts)
            .with_beside(beside);
        function(&input, &mut Output::new(&mut sink))
    }))
    .unwrap_or_else(|panic| Err(FunctionError::new(format!("the function panicked: {}", panic_message(&*panic)))));
    match result {
        Ok(()) => 0,
        Err(error) => {
            sink.fail(&error);
            1
        }
    }
}

/// Exports functions from a dynamic library under the names by which jobs ask for them (`lib.so:name`), together with
/// the version of the interface. Use it once in a library: `udf::export!(name => path, other => path::to::other);`.
///
/// A function may declare the parameters that it knows: `udf::export!(name(shortest, longest) => path);`. A job that
/// gives it another one is then refused before it begins.
///
/// A panic of the function becomes its error, with the panic's message.
#[macro_export]
macro_rules! export {
    ($($symbol:ident $(($($parameter:ident),* $(,)?))? => $function:expr),+ $(,)?) => {
        /// The exported symbols, in a module of their own so that a symbol may have its function's name.
        #[doc(hidden)]
        #[allow(unsafe_code, missing_docs, unreachable_pub, unused_imports)]
        pub mod sector_udf_symbols {
            use super::*;

            #[unsafe(no_mangle)]
            pub extern "C" fn sector_udf_abi_version() -> u32 {
                $crate::abi::ABI_VERSION
            }

            $(
                /// # Safety
                /// Called by the host alone, with pointers that are valid for the call.
                #[unsafe(no_mangle)]
                pub unsafe extern "C" fn $symbol(
                    input: *const $crate::abi::SectorInput,
                    output: *mut $crate::abi::SectorOutput,
                ) -> i32 {
                    // Referred to here, so that no linker leaves it out.
                    $(let _ = ::std::hint::black_box(concat!(
                        "\x01sector udf parameters ", stringify!($symbol), "=",
                        $(stringify!($parameter), ",",)* "\x01"
                    ));)?
                    let function: $crate::Function = {
                        use super::*;
                        $function
                    };
                    // SAFETY: required of the caller.
                    unsafe { $crate::abi::enter(input, output, function) }
                }
            )+
        }
    };
}

/// The message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}

/// # Safety
/// `raw` must come from a host that conforms to the header.
unsafe fn library_parts(raw: &SectorInput) -> Result<Vec<Beside<'_>>, FunctionError> {
    if (raw.struct_bytes as usize) < size_of::<SectorInput>() {
        return Err(FunctionError::new(OLD_HOST));
    }
    let part = |at: u32| {
        // SAFETY: the header promises `stream_count` structures, `stream_bytes` apart, which a later host may have
        // made longer.
        let part = unsafe { &*raw.streams.byte_add(at as usize * raw.stream_bytes as usize) };
        let format = match part.record_format {
            RECORDS_FILE => RecordFormat::File,
            RECORDS_FIXED => RecordFormat::Fixed(part.record_bytes),
            RECORDS_LINES => RecordFormat::Lines,
            RECORDS_INDEX => RecordFormat::Index,
            other => return Err(FunctionError::new(format!("record format {other} is unknown to this library"))),
        };
        let (length, records) = (usize::try_from(part.length)?, usize::try_from(part.record_count)?);
        // SAFETY: the header promises `length` bytes at `bytes`, never NULL, and a path that ends with NUL.
        let (bytes, path) = unsafe { (slice::from_raw_parts(part.bytes, length), CStr::from_ptr(part.path)) };
        let starts = match part.starts.is_null() {
            true => &[],
            // SAFETY: the header promises one number more than there are records, aligned, unless the pointer is
            // NULL.
            false => unsafe { slice::from_raw_parts(part.starts, records + 1) },
        };
        Ok(Beside { bytes, format, path: path.to_str()?, from: part.from, starts })
    };
    (0..raw.stream_count).map(part).collect()
}

impl Parameters for SectorInput {
    fn find(&self, name: &str) -> Option<&str> {
        let name = CString::new(name).ok()?;
        // SAFETY: the host's own function with the host's own structure; what it returns lives as long as the input.
        let value = unsafe { (self.parameter)(self, name.as_ptr()) };
        if value.is_null() {
            return None;
        }
        // SAFETY: not NULL, so it ends with NUL.
        unsafe { CStr::from_ptr(value) }.to_str().ok()
    }
}

impl SideFiles for SectorInput {
    fn find(&self, name: &str) -> Option<&[u8]> {
        let (name, mut length) = (CString::new(name).ok()?, 0);
        // SAFETY: the host's own function with the host's own structure; `enter` has checked that the host is not too
        // old to have it.
        let bytes = unsafe { (self.side_file)(self, name.as_ptr(), &raw mut length) };
        if bytes.is_null() {
            return None;
        }
        // SAFETY: the header promises `length` bytes there, which live as long as the input.
        Some(unsafe { slice::from_raw_parts(bytes, usize::try_from(length).ok()?) })
    }
}

/// The library's way back to the host.
struct LibrarySink<'a>(&'a mut SectorOutput);

impl LibrarySink<'_> {
    fn fail(&mut self, error: &FunctionError) {
        let text: Vec<u8> = error.message().bytes().filter(|byte| *byte != 0).collect();
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the host's own function with the host's own structure.
        unsafe { (self.0.fail)(self.0, error.record().unwrap_or(NO_RECORD), text.as_ptr()) }
    }
}

impl Sink for LibrarySink<'_> {
    fn emit(&mut self, bucket: u64, bytes: &[u8], records: u64) -> Result<(), Stopped> {
        // SAFETY: the host's own function with the host's own structure; it copies the bytes.
        let code = unsafe { (self.0.emit_records)(self.0, bucket, bytes.as_ptr().cast(), bytes.len() as u64, records) };
        if code == 0 { Ok(()) } else { Err(Stopped) }
    }

    fn progress(&mut self, bytes_done: u64) {
        // SAFETY: as above.
        unsafe { (self.0.progress)(self.0, bytes_done) }
    }

    fn count(&mut self, name: &str, count: u64) {
        // A name with a NUL becomes the empty name, which the host rejects.
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: as above; it copies the name. `enter` has checked that the host is not too old to have this
        // function.
        unsafe { (self.0.count)(self.0, name.as_ptr(), count) }
    }
}

/// What the host keeps of an input during a call.
struct HostInput<'a, 'b> {
    input: &'a Input<'b>,
    /// Parameters that were asked for, as C strings: they live until the call is over.
    given: RefCell<Vec<(CString, CString)>>,
}

/// What the host keeps of an output during a call.
struct HostOutput<'a, 'b> {
    output: &'a mut Output<'b>,
    failure: Option<FunctionError>,
}

unsafe extern "C" fn host_parameter(input: *const SectorInput, name: *const c_char) -> *const c_char {
    if input.is_null() || name.is_null() {
        return std::ptr::null();
    }
    // SAFETY: `host` is the `HostInput` of the call this happens in; `name` ends with NUL (header).
    let (host, name) = unsafe { (&*(*input).host.cast::<HostInput<'_, '_>>(), CStr::from_ptr(name)) };
    let mut given = host.given.borrow_mut();
    if let Some((_, value)) = given.iter().find(|(known, _)| known.as_c_str() == name) {
        return value.as_ptr();
    }
    let value = name.to_str().ok().and_then(|name| host.input.parameter(name)).and_then(|text| CString::new(text).ok());
    let Some(value) = value else { return std::ptr::null() };
    // A `CString` keeps its bytes where they are when the vector moves.
    let pointer = value.as_ptr();
    given.push((name.to_owned(), value));
    pointer
}

unsafe extern "C" fn host_side_file(input: *const SectorInput, name: *const c_char, length: *mut u64) -> *const u8 {
    if input.is_null() || name.is_null() || length.is_null() {
        return std::ptr::null();
    }
    // SAFETY: `host` is the `HostInput` of the call this happens in; `name` ends with NUL (header).
    let (host, name) = unsafe { (&*(*input).host.cast::<HostInput<'_, '_>>(), CStr::from_ptr(name)) };
    let Some(bytes) = name.to_str().ok().and_then(|name| host.input.side_file(name)) else { return std::ptr::null() };
    // SAFETY: not NULL, so there is room for a number (header).
    unsafe { length.write(bytes.len() as u64) };
    bytes.as_ptr()
}

unsafe extern "C" fn host_emit(output: *mut SectorOutput, bucket: u64, bytes: *const c_void, length: u64) -> i32 {
    // SAFETY: passed on as it came.
    unsafe { host_emit_records(output, bucket, bytes, length, 1) }
}

unsafe extern "C" fn host_emit_records(
    output: *mut SectorOutput,
    bucket: u64,
    bytes: *const c_void,
    length: u64,
    records: u64,
) -> i32 {
    // SAFETY: `host` is the `HostOutput` of the call this happens in.
    let host = unsafe { &mut *(*output).host.cast::<HostOutput<'_, '_>>() };
    let bytes = if length == 0 {
        &[][..]
    } else {
        match usize::try_from(length) {
            // SAFETY: the header demands `length` readable bytes.
            Ok(length) if !bytes.is_null() && length <= isize::MAX as usize => unsafe {
                slice::from_raw_parts(bytes.cast::<u8>(), length)
            },
            _ => {
                host.failure
                    .get_or_insert(FunctionError::new("the function emitted from no address or an endless length"));
                return STOPPED;
            }
        }
    };
    match host.output.emit_records(bucket, bytes, records) {
        Ok(()) => 0,
        Err(Stopped) => STOPPED,
    }
}

unsafe extern "C" fn host_progress(output: *mut SectorOutput, bytes_done: u64) {
    // SAFETY: `host` is the `HostOutput` of the call this happens in.
    unsafe { &mut *(*output).host.cast::<HostOutput<'_, '_>>() }.output.progress(bytes_done);
}

unsafe extern "C" fn host_count(output: *mut SectorOutput, name: *const c_char, count: u64) {
    // SAFETY: `host` is the `HostOutput` of the call this happens in; a name ends with NUL (header).
    let (host, name) = unsafe {
        let host = &mut *(*output).host.cast::<HostOutput<'_, '_>>();
        (host, if name.is_null() { c"" } else { CStr::from_ptr(name) })
    };
    // A name that is not UTF-8 becomes the empty name, which is reported when the segment ends.
    host.output.count(name.to_str().unwrap_or_default(), count);
}

unsafe extern "C" fn host_fail(output: *mut SectorOutput, record: u64, message: *const c_char) {
    // SAFETY: `host` is the `HostOutput` of the call this happens in.
    let host = unsafe { &mut *(*output).host.cast::<HostOutput<'_, '_>>() };
    let text = if message.is_null() {
        "(no message)".into()
    } else {
        // SAFETY: not NULL, so it ends with NUL (header).
        unsafe { CStr::from_ptr(message) }.to_string_lossy()
    };
    let error = FunctionError::new(text);
    host.failure = Some(if record == NO_RECORD { error } else { error.at_record(record) });
}

/// `SECTOR_RECORDS_FILE` of the header.
const RECORDS_FILE: u32 = 0;
/// `SECTOR_RECORDS_FIXED` of the header.
const RECORDS_FIXED: u32 = 1;
/// `SECTOR_RECORDS_LINES` of the header.
const RECORDS_LINES: u32 = 2;
/// `SECTOR_RECORDS_INDEX` of the header.
const RECORDS_INDEX: u32 = 3;
/// `SECTOR_NO_RECORD` of the header.
const NO_RECORD: u64 = u64::MAX;
/// The message to a library that calls what its host does not have.
const OLD_HOST: &str = "the SPE is older than the library: build it for the node's version";
/// What `emit` returns when the output is closed.
const STOPPED: i32 = 1;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Collected;

    fn upper(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
        assert_eq!((input.path(), input.segment(), input.from(), input.buckets()), ("/a b", 7, 30, 4));
        let suffix = input.required_parameter("suffix")?;
        assert_eq!(input.parameter("suffix"), Some(suffix));
        assert_eq!(input.parameter("absent"), None);
        for line in input.records() {
            output.emit(6, &[&line.to_ascii_uppercase()[..], suffix.as_bytes()].concat())?;
        }
        output.progress(input.bytes().len() as u64);
        output.count("lines", 2);
        output.count("lines", u64::MAX);
        output.count("a\0b", 1);
        Ok(())
    }

    fn picky(input: &Input<'_>, _: &mut Output<'_>) -> Result<(), FunctionError> {
        match input.bytes().len() {
            0 => Err(FunctionError::new("nothing\0 there").at_record(5)),
            1 => panic!("{} byte", 1),
            2 => panic!("plain"),
            _ => Ok(()),
        }
    }

    crate::export!(test_upper => upper, test_picky => picky, test_join => join, test_side => side);

    fn run(function: NativeFunction, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), FunctionError> {
        let parameters: Vec<(String, String)> = vec![("suffix".into(), "!\n".into())];
        let input =
            Input::new(bytes, RecordFormat::Lines).at("/a b", 7, 30).with_buckets(4).with_parameters(&parameters);
        // SAFETY: the functions above are made by `export!`.
        unsafe { call(function, &input, &mut Output::new(sink)) }
    }

    #[test]
    fn a_function_sees_its_segment_and_its_results_arrive_through_the_c_abi() {
        let mut collected = Collected::with_buckets(4);
        run(sector_udf_symbols::test_upper, b"bee\ncow", &mut collected).unwrap();
        assert_eq!(collected.bucket(2), b"BEE!\nCOW!\n");
        assert_eq!((collected.records, collected.bytes_done), (2, 7));
        // A name that C cannot express arrives as the empty name, which the host rejects.
        assert_eq!(collected.counters, [("lines".to_owned(), 1), (String::new(), 1)].into());
        assert_eq!(sector_udf_symbols::sector_udf_abi_version(), ABI_VERSION);
    }

    fn join(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
        let [other] = input.beside() else { return Err(FunctionError::new("there are not two streams")) };
        assert_eq!((other.path, other.from, input.path(), input.from()), ("/b", 5, "/a", 200));
        for (left, right) in input.records().zip(other.records()) {
            output.emit(0, &[left, b"=", right, b";"].concat())?;
        }
        Ok(())
    }

    #[test]
    fn records_of_an_index_and_a_second_stream_arrive_through_the_c_abi() {
        let starts = [200_u64, 201, 201, 204].map(u64::to_le);
        let other = Beside { bytes: b"112233", format: RecordFormat::Fixed(2), path: "/b", from: 5, starts: &[] };
        let input = Input::new(b"abcd", RecordFormat::Index)
            .at("/a", 0, 200)
            .with_starts(&starts)
            .with_beside(slice::from_ref(&other));
        let mut collected = Collected::default();
        // SAFETY: the function above is made by `export!`.
        unsafe { call(sector_udf_symbols::test_join, &input, &mut Output::new(&mut collected)) }.unwrap();
        assert_eq!(collected.bucket(0), b"a=11;=22;bcd=33;");
    }

    fn side(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
        assert_eq!((input.side_file("empty"), input.side_file("a\0b")), (Some(&b""[..]), None));
        output.emit(0, input.required_side_file("words")?)?;
        input.required_side_file("centres").map(drop)
    }

    #[test]
    fn side_files_arrive_through_the_c_abi_and_one_that_is_missing_is_named() {
        let files: Vec<(String, Vec<u8>)> = vec![("words".into(), b"a b".to_vec()), ("empty".into(), vec![])];
        let input = Input::new(b"", RecordFormat::File).with_side_files(&files);
        let mut collected = Collected::default();
        // SAFETY: the function above is made by `export!`.
        let ended = unsafe { call(sector_udf_symbols::test_side, &input, &mut Output::new(&mut collected)) };
        assert!(ended.unwrap_err().message().contains("`centres`"));
        assert_eq!(collected.bucket(0), b"a b");
    }

    #[test]
    fn an_error_and_a_panic_come_back_with_their_message_and_record() {
        let failure = |bytes: &[u8]| run(sector_udf_symbols::test_picky, bytes, &mut Collected::default()).unwrap_err();
        assert_eq!(failure(b""), FunctionError::new("nothing there").at_record(5));
        assert_eq!(failure(b"1").message(), "the function panicked: 1 byte");
        assert_eq!(failure(b"22").message(), "the function panicked: plain");
    }

    #[test]
    fn a_closed_output_stops_the_function() {
        struct Closed(u32);
        impl Sink for Closed {
            fn emit(&mut self, _: u64, _: &[u8], _: u64) -> Result<(), Stopped> {
                self.0 += 1;
                Err(Stopped)
            }
            fn progress(&mut self, _: u64) {}
            fn count(&mut self, _: &str, _: u64) {}
        }
        let mut closed = Closed(0);
        let error = run(sector_udf_symbols::test_upper, b"bee\ncow", &mut closed).unwrap_err();
        assert_eq!((error.message(), closed.0), ("the output is closed", 1));
    }

    #[test]
    fn a_c_function_that_returns_a_number_without_a_word_is_named_by_it() {
        unsafe extern "C" fn nine(_: *const SectorInput, output: *mut SectorOutput) -> i32 {
            // SAFETY: the test's own host.
            unsafe { ((*output).emit)(output, 0, std::ptr::null(), 0) + 9 }
        }
        unsafe extern "C" fn nowhere(_: *const SectorInput, output: *mut SectorOutput) -> i32 {
            // SAFETY: the test's own host.
            unsafe { ((*output).emit)(output, 0, std::ptr::null(), 1) }
        }
        let failure = |function| run(function, b"", &mut Collected::default()).unwrap_err();
        assert_eq!(failure(nine).message(), "the function returned 9");
        assert!(failure(nowhere).message().contains("no address"));
    }

    #[test]
    fn the_layout_is_that_of_the_header_on_64_bits() {
        assert_eq!((size_of::<SectorInput>(), size_of::<SectorOutput>(), size_of::<SectorStream>()), (96, 56, 56));
        assert_eq!(std::mem::offset_of!(SectorInput, parameter), 56);
        assert_eq!(std::mem::offset_of!(SectorInput, side_file), 88);
        assert_eq!(std::mem::offset_of!(SectorOutput, count), 48);
    }
}
