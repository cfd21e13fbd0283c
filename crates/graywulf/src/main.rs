//! `sector sql` and `sector table` as a program of its own, so that `sector` carries no engine. It never does anything
//! but start the library.

fn main() -> std::process::ExitCode {
    graywulf::main()
}
