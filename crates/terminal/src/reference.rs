//! Pages of the reference of commands (`docs/reference/`), made from the parser. So they never say what a command does
//! not take.

use std::{env, fs, io, path::Path};

use clap::{Arg, Command};

/// A page about these commands of a program whose parser is built. `title` is its heading.
pub fn page(title: &str, program: &Command, names: &[&str]) -> String {
    let mut text = format!(
        "# {title}\n\nThis page is generated from the parser: `cargo xtask reference` writes it.\n\
         [`../command-line.md`](../command-line.md) says what holds for all commands: exit codes, `--json`, and the\n\
         options of every command.\n"
    );
    for command in names.iter().filter_map(|name| program.find_subcommand(name)) {
        section(command, &mut text);
    }
    text
}

/// Whether a page of the reference says this. With `UPDATE_REFERENCE` set, the page is written anew first.
///
/// # Errors
/// If it cannot be read or written.
pub fn is_current(file: &Path, text: &str) -> io::Result<bool> {
    if env::var_os("UPDATE_REFERENCE").is_some() {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, text)?;
    }
    Ok(fs::read_to_string(file)? == text)
}

/// A command, and those below it.
fn section(command: &Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let usage = command.clone().render_usage().to_string();
    let about = command.get_about().map(|about| format!("{about}.\n\n")).unwrap_or_default();
    *text += &format!("\n## `{name}`\n\n{}", wrapped(&about, ""));
    let usage: Vec<_> = usage.trim_start_matches("Usage:").lines().map(str::trim).collect();
    *text += &format!("```text\n{}\n```\n", usage.join("\n"));
    let arguments: Vec<_> = command.get_arguments().filter(|argument| is_own(argument)).collect();
    if !arguments.is_empty() {
        *text += "\n";
        arguments.iter().for_each(|argument| *text += &wrapped(&item(argument), "  "));
    }
    if let Some(example) = command.get_after_help() {
        *text += &format!("\n```text\n{}\n```\n", example.to_string().trim());
    }
    command.get_subcommands().filter(|inner| inner.get_name() != "help").for_each(|inner| section(inner, text));
}

/// Whether an argument is the command's own. The others are told once for all commands.
fn is_own(argument: &Arg) -> bool {
    !argument.is_global_set() && !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
}

/// An argument as an item of a list.
fn item(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default();
    let value = values.iter().map(|name| format!(" {name}")).collect::<String>();
    let takes_value = argument.get_action().takes_values();
    let names: Vec<_> = argument
        .get_short()
        .map(|short| format!("`-{short}`"))
        .into_iter()
        .chain(argument.get_long().map(|long| format!("`--{long}{}`", if takes_value { &value } else { "" })))
        .collect();
    let names = if names.is_empty() { format!("`{}`", value.trim()) } else { names.join(", ") };
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut text = if help.is_empty() { format!("- {names}") } else { format!("- {names}: {help}") };
    let choices: Vec<_> =
        argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if takes_value && !choices.is_empty() {
        text += &format!(". One of {}", choices.join(", "));
    }
    let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() {
        text += &format!(". By default `{}`", defaults.join(" "));
    }
    text + "\n"
}

/// The text in lines that a person can read; further lines begin with `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + word.chars().count() < LINE_CHARS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    let end = &text[text.trim_end().len()..];
    lines.join("\n") + end
}

const LINE_CHARS: usize = 118;

#[cfg(test)]
mod tests {
    use clap::{ArgAction, builder::PossibleValuesParser};

    use super::*;

    #[test]
    fn a_command_is_told_with_what_it_takes_and_without_what_all_take() {
        let all = Arg::new("json").long("json").global(true).action(ArgAction::SetTrue);
        let own = Arg::new("kind").short('k').long("kind").value_name("KIND").default_value("b").help("Which kind");
        let own = own.value_parser(PossibleValuesParser::new(["a", "b"]));
        let put = Command::new("put").about("Upload").arg(own).after_help("Example: sector put -k a");
        let mut program = Command::new("sector").arg(all).subcommand(put);
        program.build();
        let text = page("Files", &program, &["put"]);
        assert!(
            text.starts_with("# Files\n")
                && text.contains("\n## `sector put`\n\nUpload.\n\n```text\nsector put [OPTIONS]\n")
        );
        assert!(text.contains("- `-k`, `--kind KIND`: Which kind. One of `a`, `b`. By default `b`\n"), "{text}");
        assert!(text.contains("Example: sector put -k a") && !text.contains("--json`:"), "{text}");
        assert!(!text.contains("--help"), "{text}");
    }
}
