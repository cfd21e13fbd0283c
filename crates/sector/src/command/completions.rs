//! `completions` and `man`: what shells and `man` want to know of the command line. Paths in the cloud are asked of the
//! cloud ([`complete_paths`](super::complete_paths)). All else is made from the parser, so they never disagree with it.

use std::{fs, path::Path};

use clap::CommandFactory;
use clap_complete::Shell;
use terminal::{failure::Failure, show};

use crate::arguments::Arguments;

/// `sector completions`.
pub(crate) fn completions(shell: Shell) {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "sector", &mut text);
    text.extend(paths_of_cloud(shell).as_bytes());
    show::bytes(&text);
}

/// What a shell needs beside the parser's script.
fn paths_of_cloud(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    }
}

/// `sector man`.
pub(crate) fn manual(folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::local("write manual pages to", folder, &error);
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command().disable_help_subcommand(true), folder).map_err(failed)
}

/// Bash takes a word apart at each `:`, so the word is read from the line.
const BASH: &str = r#"
_sector_with_paths() {
    _sector "$@"
    local line="${COMP_LINE:0:COMP_POINT}" command cur before found
    cur="${line##*[[:space:]]}"
    command="${COMP_WORDS[0]/#\~/$HOME}"
    before="${line%"$cur"}"
    read -ra before <<< "$before"
    local IFS=$'\n'
    found=($("$command" complete-paths -- "${before[@]:1}" "$cur" 2>/dev/null))
    [[ ${#found[@]} -eq 0 ]] && return 0
    case "$IFS${before[*]:1}$IFS" in
        *"${IFS}put$IFS"*|*"${IFS}get$IFS"*|*"${IFS}run$IFS"*) found+=($(compgen -f -- "$cur")) ;;
    esac
    if [[ "$cur" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        found=("${found[@]#"${cur%"${cur##*:}"}"}")
    fi
    COMPREPLY=("${found[@]}")
    compopt -o filenames 2>/dev/null
    [[ ${#found[@]} -eq 1 && "${found[0]}" == */ ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -F _sector_with_paths -o bashdefault -o default sector
"#;

const ZSH: &str = r#"
_sector_with_paths() {
    local -a found folders files
    found=(${(f)"$("$words[1]" complete-paths -- "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)"})
    folders=(${(M)found:#*/})
    files=(${found:#*/})
    (( $#folders )) && compadd -S '' -- $folders
    (( $#files )) && compadd -- $files
    (( $#found )) || _sector "$@"
}
compdef _sector_with_paths sector
"#;

const FISH: &str = r#"
complete -c sector -a '(sector complete-paths -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"#;
