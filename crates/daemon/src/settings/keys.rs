//! The `settings!` macro. From one paragraph a key it makes the struct, the TOML reader that knows each key's line, the
//! defaults and the reference. With this one source they can never disagree.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Serialize,
    de::{IntoDeserializer, value},
};

/// What the reference says of a key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key's name in the file.
    pub name: &'static str,
    /// Its Rust type.
    pub kind: &'static str,
    /// `default`, `required` or `optional`.
    pub presence: &'static str,
    /// The default, or an example where the key is required, as it would be written in TOML.
    pub value: Option<&'static str>,
    /// Its comment, line by line.
    pub doc: &'static [&'static str],
}

/// What the `settings!` macro knows of a role's settings.
pub trait Keyed: Sized + Serialize {
    /// The role, for people.
    const ROLE: &'static str;
    /// The keys, in the order of the reference.
    const KEYS: &'static [Key];

    /// Reads the text of a file, and on which lines its keys stand.
    fn from_toml(text: &str) -> Result<(Self, Lines), Unreadable>;
}

/// The line of the file, from 1, of each key that the file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<&'static str, usize>);

impl Lines {
    /// The line of a key, if the file has the key.
    pub fn of(&self, key: &str) -> Option<usize> {
        self.0.get(key).copied()
    }

    pub(super) fn note(&mut self, key: &'static str, text: &str, offset: usize) {
        self.0.insert(key, line_at(text, offset));
    }
}

/// Why a text is not the settings it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Not TOML, an unknown key, or a value of the wrong type.
    At {
        /// The line, from 1.
        line: usize,
        /// The key, if there is one on the line.
        key: Option<String>,
        /// What is wrong.
        why: String,
    },
    /// A required key is missing.
    Missing(&'static str),
}

impl Unreadable {
    pub(super) fn new(text: &str, error: &toml::de::Error) -> Self {
        let offset = error.span().map_or(0, |span| span.start);
        // The first line of a message says what is wrong; the others repeat the text around it.
        let why = error.message().lines().next().unwrap_or("it is not TOML").to_owned();
        let line = line_at(text, offset);
        let written = text.lines().nth(line - 1).unwrap_or_default();
        let key = written.split_once('=').map(|(key, _)| key.trim().to_owned());
        Self::At { line, key: key.filter(|key| is_key(key)), why }
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The value of a default as written in a `settings!` paragraph.
pub(super) fn value_of<'de, T, L>(literal: L) -> T
where
    T: Deserialize<'de>,
    L: IntoDeserializer<'de, value::Error> + Copy + fmt::Debug,
{
    // The literals are in this crate, and a test reads each of them: no input reaches this.
    #[allow(clippy::expect_used)]
    T::deserialize(literal.into_deserializer()).expect("a default written in this crate")
}

/// Makes a settings struct from one paragraph a key: `default(literal)`, `required(example)` or `optional()`.
macro_rules! settings {
    (
        $(#[doc = $head:literal])*
        struct $name:ident of $role:literal {
            $( $(#[doc = $doc:literal])* $key:ident : $type:ty = $presence:ident($($value:literal)?), )*
        }
    ) => {
        $(#[doc = $head])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
        pub struct $name {
            $( $(#[doc = $doc])* pub $key: $type, )*
        }

        impl Default for $name {
            /// Every key with its default; a required key with the example of the reference.
            fn default() -> Self {
                Self { $( $key: $crate::settings::keys::initial!($presence $($value)?), )* }
            }
        }

        impl $crate::settings::Keyed for $name {
            const ROLE: &'static str = $role;
            const KEYS: &'static [$crate::settings::Key] = &[ $( $crate::settings::Key {
                name: stringify!($key),
                kind: stringify!($type),
                presence: stringify!($presence),
                value: $crate::settings::keys::shown!($($value)?),
                doc: &[$($doc),*],
            }, )* ];

            fn from_toml(
                text: &str,
            ) -> Result<(Self, $crate::settings::Lines), $crate::settings::Unreadable> {
                #[derive(serde::Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Written {
                    $( $key: Option<toml::Spanned<$type>>, )*
                }
                let written: Written =
                    toml::from_str(text).map_err(|error| $crate::settings::Unreadable::new(text, &error))?;
                let mut lines = $crate::settings::Lines::default();
                let settings = Self {
                    $( $key: match written.$key {
                        Some(value) => {
                            lines.note(stringify!($key), text, value.span().start);
                            value.into_inner()
                        }
                        None => $crate::settings::keys::absent!($presence $key $($value)?),
                    }, )*
                };
                Ok((settings, lines))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            /// As a table within a role's settings. There the reader of the whole file knows the line.
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Written {
                    $( $key: Option<$type>, )*
                }
                let written = Written::deserialize(from)?;
                Ok(Self {
                    $( $key: match written.$key {
                        Some(value) => value,
                        None => $crate::settings::keys::absent_in_table!($presence $key $($value)?),
                    }, )*
                })
            }
        }
    };
}

/// A key's value in `Default`.
macro_rules! initial {
    (optional) => {
        None
    };
    ($presence:ident $value:literal) => {
        $crate::settings::keys::value_of($value)
    };
}

/// A key's value if the file does not have it.
macro_rules! absent {
    (optional $key:ident) => {
        None
    };
    (required $key:ident $value:literal) => {
        return Err($crate::settings::Unreadable::Missing(stringify!($key)))
    };
    (default $key:ident $value:literal) => {
        $crate::settings::keys::value_of($value)
    };
}

/// A key's value if a table does not have it.
macro_rules! absent_in_table {
    (optional $key:ident) => {
        None
    };
    (required $key:ident $value:literal) => {
        return Err(serde::de::Error::missing_field(stringify!($key)))
    };
    (default $key:ident $value:literal) => {
        $crate::settings::keys::value_of($value)
    };
}

/// A key's value in the reference.
macro_rules! shown {
    () => {
        None
    };
    ($value:literal) => {
        Some(stringify!($value))
    };
}

pub(super) use {absent, absent_in_table, initial, settings, shown};
