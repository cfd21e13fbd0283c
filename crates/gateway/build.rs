//! Embeds the page, also compressed. Its libraries are brought by npm, as the lockfile beside the page says; nobody else's code lies
//! in the repository. Without npm, or without a network, the gateway is built all the same, without the page.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use flate2::{Compression, write::GzEncoder};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=page");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=SECTOR_WITHOUT_PAGE");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let (files, missing) = match page(Path::new("page"), &out.join("vendor")) {
        Ok(files) => (files, String::new()),
        Err(why) => {
            println!("cargo:warning=built without the web page: {why}");
            (Vec::new(), why)
        }
    };
    let mut text = String::from("static FILES: &[PageFile] = &[\n");
    for (name, file) in &files {
        let bytes = fs::read(file)?;
        let digest = blake3::hash(&bytes).to_hex();
        let file = fs::canonicalize(file)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&bytes)?;
        let packed = encoder.finish()?;
        let packed = if packed.len() < bytes.len() {
            let to = out.join(format!("{digest}.gz"));
            fs::write(&to, packed)?;
            format!("Some(include_bytes!({to:?}))")
        } else {
            "None".into()
        };
        writeln!(
            text,
            "    PageFile {{ name: {name:?}, bytes: include_bytes!({file:?}), packed: {packed}, digest: Cow::Borrowed(\"{digest}\") }},"
        )?;
    }
    writeln!(text, "];\n/// Why there are none.\nconst MISSING: &str = {missing:?};")?;
    fs::write(out.join("page_files.rs"), text)?;
    Ok(())
}

/// The files of the page with their names at the server, or why there is no page.
fn page(own: &Path, vendor: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    if env::var_os("SECTOR_WITHOUT_PAGE").is_some() {
        return Err("`SECTOR_WITHOUT_PAGE` was set when it was built".into());
    }
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(vendor).map_err(failed)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(own).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match name.as_str() {
            "package.json" | "package-lock.json" => drop(fs::copy(&file, vendor.join(&name)).map_err(failed)?),
            name if file.is_file() && SERVED.iter().any(|ending| name.ends_with(ending)) => {
                files.push((name.to_owned(), file));
            }
            _ => {}
        }
    }
    install(vendor)?;
    let modules = vendor.join("node_modules");
    for (name, from) in VENDORED {
        files.push((name.to_owned(), modules.join(from)));
    }
    for entry in fs::read_dir(modules.join(PARQUET)).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|ending| ending == "js") && !file.ends_with("node.js") {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            files.push((format!("vendor/hyparquet/{name}"), file));
        }
    }
    let mut licences = String::new();
    for (library, from) in LICENCES {
        let text =
            fs::read_to_string(modules.join(from)).map_err(|error| format!("the licence of {library}: {error}"))?;
        licences.push_str(&format!("{library}\n\n{text}\n\n"));
    }
    let file = vendor.join("LICENSES.txt");
    fs::write(&file, licences).map_err(failed)?;
    files.push(("vendor/LICENSES.txt".into(), file));
    match files.iter().find(|(_, file)| !file.is_file()) {
        Some((name, _)) => Err(format!("npm brought no `{name}`")),
        None => Ok(files),
    }
}

/// Brings the libraries of the lockfile, unless they are there.
fn install(vendor: &Path) -> Result<(), String> {
    let status = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"])
        .current_dir(vendor)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .map_err(|error| format!("npm cannot be run ({error})"))?;
    if status.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&status.stderr);
    Err(format!("npm failed: {}", said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing")))
}

/// Of the page's own folder, these are served.
const SERVED: [&str; 4] = [".html", ".js", ".css", ".svg"];
/// What the page imports, and where npm puts it.
const VENDORED: [(&str, &str); 6] = [
    ("vendor/htm.js", "htm/preact/standalone.module.js"),
    ("vendor/uplot.js", "uplot/dist/uPlot.esm.js"),
    ("vendor/uplot.css", "uplot/dist/uPlot.min.css"),
    ("vendor/fzstd.js", "fzstd/esm/index.mjs"),
    ("vendor/gzip.js", "hyparquet-compressors/src/gzip.js"),
    ("vendor/gzip.huffman.js", "hyparquet-compressors/src/gzip.huffman.js"),
];
/// The modules of the reader of Parquet, which a browser loads when it shows the first such file.
const PARQUET: &str = "hyparquet/src";
/// Their licences, which travel with them.
const LICENCES: [(&str, &str); 5] = [
    ("htm, with Preact", "htm/LICENSE"),
    ("uPlot", "uplot/LICENSE"),
    ("hyparquet", "hyparquet/LICENSE"),
    ("fzstd", "fzstd/LICENSE"),
    ("hyparquet-compressors", "hyparquet-compressors/LICENSE"),
];
