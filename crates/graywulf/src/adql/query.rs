//! A query in ADQL, from its text to a statement of the engine. First it says which tables it names. When their columns are
//! known, it is the statement. It never looks a name up itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use datafusion::sql::sqlparser::{
    ast::{Expr, Ident, ObjectName, Query, SelectItem, SetExpr, Statement, TableFactor, VisitMut, VisitorMut},
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan, Tokenizer, Word},
};

use super::{dialect::AdqlDialect, error::AdqlError, geometry, mathematics, top};

/// A query that was read once.
#[derive(Clone, Debug)]
pub(crate) struct AdqlQuery {
    tokens: Vec<TokenWithSpan>,
    relations: Vec<Vec<String>>,
    defined: BTreeSet<String>,
    spellings: BTreeMap<String, String>,
}

impl AdqlQuery {
    /// Reads a query.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, AdqlError> {
        let tokens = Tokenizer::new(&AdqlDialect, text).tokenize_with_location().map_err(ParserError::from)?;
        if tokens.len() > TOKENS_MAX {
            return Err(AdqlError::new("it is too long: upload a table"));
        }
        let operators = depth(&tokens);
        if operators > OPERATORS_MAX {
            return Err(AdqlError::new(format!(
                "it has {operators} operators, and {OPERATORS_MAX} are allowed: write IN (…), or upload a table"
            )));
        }
        let mut statement = parse(tokens.clone())?;
        let mut names = Names::default();
        let _ = statement.visit(&mut names);
        if names.relations.len() > TABLES_MAX || names.named > TABLES_MAX {
            return Err(AdqlError::new(format!("it names tables more than {TABLES_MAX} times")));
        }
        Ok(Self { tokens, relations: names.relations, defined: names.defined, spellings: names.spellings })
    }

    /// The tables that it names, each by the parts of its name: in small letters where they are not in quotes.
    pub(crate) fn relations(&self) -> &[Vec<String>] {
        &self.relations
    }

    /// Whether it defines a table of this name itself. In the definition, the name may still be that of another.
    pub(crate) fn defines(&self, parts: &[String]) -> bool {
        matches!(parts, [name] if self.defined.contains(name))
    }

    /// How names that it gives to columns were written, by their small letters.
    pub(crate) fn spellings(&self) -> &BTreeMap<String, String> {
        &self.spellings
    }

    /// The statement, for tables whose columns have small letters only. In quotes, a column is named as its catalogue
    /// has it: these are all such spellings.
    ///
    /// # Errors
    /// What the engine cannot do.
    pub(crate) fn statement(mut self, columns: &BTreeSet<String>) -> Result<Statement, AdqlError> {
        for token in &mut self.tokens {
            if let Token::Word(Word { value, quote_style: Some(_), .. }) = &mut token.token
                && columns.contains(value)
            {
                value.make_ascii_lowercase();
            }
        }
        let mut statement = parse(self.tokens)?;
        let mut rewriting = Rewriting { left: EXPRESSIONS_MAX };
        match statement.visit(&mut rewriting) {
            ControlFlow::Continue(()) => Ok(statement),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

fn parse(tokens: Vec<TokenWithSpan>) -> Result<Statement, AdqlError> {
    let mut statements = Parser::new(&AdqlDialect).with_tokens_with_locations(tokens).parse_statements()?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement @ Statement::Query(_)), true) => Ok(statement),
        (None, _) => Err(AdqlError::new("it is empty")),
        _ => Err(AdqlError::new("a query is one SELECT")),
    }
}

/// How many tokens make the parsed statement deeper, which has to be walked: all but names, values and brackets. A sign
/// before a number of a list does not.
fn depth(tokens: &[TokenWithSpan]) -> usize {
    let mut meaning = tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_)));
    let (mut depth, mut before): (usize, Option<&Token>) = (0, None);
    while let Some(token) = meaning.next() {
        let is_sign = matches!(token, Token::Minus | Token::Plus)
            && matches!(before, Some(Token::Comma | Token::LParen))
            && matches!(meaning.clone().next(), Some(Token::Number(..)));
        let is_deeper = match token {
            Token::Word(word) => {
                word.quote_style.is_none() && DEEPER.iter().any(|deeper| word.value.eq_ignore_ascii_case(deeper))
            }
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Comma
            | Token::LParen
            | Token::RParen
            | Token::Period
            | Token::SemiColon
            | Token::EOF => false,
            _ => !is_sign,
        };
        depth += usize::from(is_deeper);
        before = Some(token);
    }
    depth
}

/// As the engine takes a name: in small letters, unless it is in quotes.
fn normalised(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// The names of a statement.
#[derive(Debug, Default)]
struct Names {
    relations: Vec<Vec<String>>,
    /// What `WITH` defines.
    defined: BTreeSet<String>,
    spellings: BTreeMap<String, String>,
    /// How often tables are named.
    named: usize,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let defined = query.with.iter().flat_map(|with| &with.cte_tables);
        self.defined.extend(defined.map(|table| normalised(&table.alias.name)));
        if let SetExpr::Select(select) = &*query.body {
            for item in &select.projection {
                if let SelectItem::ExprWithAlias { alias, .. } = item {
                    self.spellings.entry(alias.value.to_ascii_lowercase()).or_insert_with(|| alias.value.clone());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, ObjectName(parts): &mut ObjectName) -> ControlFlow<()> {
        self.named += 1;
        let parts: Vec<_> = parts.iter().filter_map(|part| part.as_ident()).map(normalised).collect();
        if !self.relations.contains(&parts) {
            self.relations.push(parts);
        }
        ControlFlow::Continue(())
    }
}

/// Makes the engine's of what only ADQL has.
#[derive(Debug)]
struct Rewriting {
    /// How many expressions may still come: a point within a point is copied for both of its coordinates.
    left: usize,
}

impl VisitorMut for Rewriting {
    type Break = AdqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<AdqlError> {
        if query.with.as_ref().is_some_and(|with| with.recursive) {
            return ControlFlow::Break(AdqlError::new("ADQL has no RECURSIVE"));
        }
        and_on(top::replace(query))
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<AdqlError> {
        match factor {
            TableFactor::Table { args: None, .. } | TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => {
                ControlFlow::Continue(())
            }
            other => ControlFlow::Break(AdqlError::new(format!("`{other}` is no table"))),
        }
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<AdqlError> {
        if self.left == 0 {
            return ControlFlow::Break(AdqlError::new("its points are nested too deeply"));
        }
        self.left -= 1;
        // The comparison first: it takes the functions within it apart.
        let done = geometry::compare(expression).and_then(|()| geometry::replace(expression));
        and_on(done.and_then(|()| mathematics::replace(expression)))
    }
}

fn and_on(done: Result<(), AdqlError>) -> ControlFlow<AdqlError> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// Operators of a query: its tree is as deep as they are many, and is walked by calls within calls.
const OPERATORS_MAX: usize = 500;
/// Words that make it deeper as operators do.
const DEEPER: [&str; 16] = [
    "AND",
    "OR",
    "NOT",
    "IS",
    "LIKE",
    "ILIKE",
    "BETWEEN",
    "IN",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "JOIN",
    "COLLATE",
    "AT",
    "ESCAPE",
    "CASE",
];
/// A list of a hundred thousand numbers.
const TOKENS_MAX: usize = 200_000;
/// Expressions after rewriting.
const EXPRESSIONS_MAX: usize = 300_000;
/// How often tables are named: plans of more take their time.
const TABLES_MAX: usize = 30;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rewritten(text: &str) -> String {
        let columns = ["RAJ2000".to_owned()].into();
        AdqlQuery::parse(text).unwrap().statement(&columns).unwrap().to_string()
    }

    fn refused(text: &str) -> String {
        AdqlQuery::parse(text).and_then(|query| query.statement(&BTreeSet::new())).unwrap_err().to_string()
    }

    #[test]
    fn top_becomes_a_limit_where_it_stands() {
        for (adql, sql) in [
            ("SELECT TOP 5 * FROM t ORDER BY a", "SELECT * FROM t ORDER BY a LIMIT 5"),
            ("select distinct top 5 a from t offset 2", "SELECT DISTINCT a FROM t LIMIT 5 OFFSET 2"),
            (
                "SELECT TOP 1 a FROM t UNION ALL SELECT TOP 2 a FROM u",
                "(SELECT a FROM t LIMIT 1) UNION ALL (SELECT a FROM u LIMIT 2)",
            ),
            ("SELECT a FROM (SELECT TOP 3 a FROM t) AS s", "SELECT a FROM (SELECT a FROM t LIMIT 3) AS s"),
        ] {
            let (found, wanted) = (rewritten(adql), sql.to_owned());
            let plain = |text: &str| text.replace(['(', ')'], "");
            assert_eq!(plain(&found), plain(&wanted));
        }
    }

    #[test]
    fn a_point_in_a_circle_is_a_distance() {
        for adql in [
            "SELECT 1 FROM t WHERE 1=CONTAINS(POINT('ICRS', ra, dec), CIRCLE('ICRS', 10, -5, 0.5))",
            "SELECT 1 FROM t WHERE CONTAINS(POINT(ra, dec), CIRCLE(POINT(10, -5), 0.5)) = 1",
            "SELECT 1 FROM t WHERE INTERSECTS(CIRCLE('', 10, -5, 0.5), POINT(ra, dec)) = 1",
        ] {
            assert_eq!(rewritten(adql), "SELECT 1 FROM t WHERE (\"sky_distance\"(ra, dec, 10, -5) <= 0.5)", "{adql}");
        }
        let not = rewritten("SELECT 1 FROM t WHERE 0 = CONTAINS(POINT(ra, dec), CIRCLE(10, 5, 1)) AND b = 1");
        assert!(not.ends_with("WHERE (\"sky_distance\"(ra, dec, 10, 5) > 1) AND b = 1"), "{not}");
    }

    #[test]
    fn other_functions_are_the_engines() {
        for (adql, sql) in [
            ("DISTANCE(POINT(a, b), POINT('ICRS', c, d))", "\"sky_distance\"(a, b, c, d)"),
            ("DISTANCE(p, POINT(c, d))", "\"sky_distance\"(\"sky_coord1\"(p), \"sky_coord2\"(p), c, d)"),
            ("DISTANCE(a, b, c, LOG(d))", "\"sky_distance\"(a, b, c, \"ln\"(d))"),
            ("POLYGON('ICRS', 1, 2, 3, 4, 5, 6)", "\"sky_polygon\"(1, 2, 3, 4, 5, 6)"),
            ("POLYGON(POINT(1, 2), POINT(3, 4), POINT(5, 6))", "\"sky_polygon\"(1, 2, 3, 4, 5, 6)"),
            ("BOX(POINT(1, 2), 3, 4)", "\"sky_box\"(1, 2, 3, 4)"),
            ("CONTAINS(CIRCLE(1, 2, 3), p)", "\"sky_contains\"(\"sky_circle\"(1, 2, 3), p)"),
            ("COORDSYS(POINT(1, 2))", "'ICRS'"),
            ("MOD(a + 1, 3)", "((a + 1) % (3))"),
            ("TRUNCATE(x, 2) + RAND(5) + CEILING(LOG10(x))", "\"trunc\"(x, 2) + \"random\"() + \"ceil\"(\"log10\"(x))"),
            ("MAX(x)", "MAX(x)"),
        ] {
            assert_eq!(rewritten(&format!("SELECT {adql} FROM t")), format!("SELECT {sql} FROM t"));
        }
    }

    #[test]
    fn tables_are_named_and_columns_in_quotes_found() {
        let text = "WITH near AS (SELECT * FROM sky.\"Stars\") SELECT n.\"RAJ2000\" AS Ra, \"Other\" FROM Near n \
                    JOIN TAP_UPLOAD.mine m ON n.id = m.id WHERE id IN (SELECT id FROM \"/a/b/c/d\")";
        let query = AdqlQuery::parse(text).unwrap();
        let mut found = query.relations().to_vec();
        found.sort();
        assert_eq!(found, [vec!["/a/b/c/d"], vec!["near"], vec!["sky", "Stars"], vec!["tap_upload", "mine"]]);
        assert!(query.defines(&found[1]) && !query.defines(&found[2]));
        assert_eq!(query.spellings().get("ra").map(String::as_str), Some("Ra"));
        let sql = query.statement(&["RAJ2000".to_owned()].into()).unwrap().to_string();
        assert!(sql.contains("n.\"raj2000\" AS Ra, \"Other\""), "{sql}");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (text, why) in [
            ("", "empty"),
            ("SELECT", "Expected"),
            ("DROP TABLE t", "one SELECT"),
            ("SELECT 1; SELECT 2", "one SELECT"),
            ("SELECT POINT('GALACTIC', 1, 2) FROM t", "positions are ICRS"),
            ("SELECT POINT(1) FROM t", "write POINT"),
            ("SELECT CIRCLE(1) FROM t", "write CIRCLE"),
            ("SELECT POLYGON(1, 2, 3, 4) FROM t", "write POLYGON"),
            ("SELECT BOX(1, 2) FROM t", "write BOX"),
            ("SELECT DISTANCE(1) FROM t", "write DISTANCE"),
            ("SELECT REGION('x') FROM t", "REGION"),
            ("SELECT TOP 5 a FROM t LIMIT 3", "LIMIT"),
            ("SELECT TOP 5 PERCENT a FROM t", "TOP"),
            ("SELECT 'a FROM t", "Unterminated"),
        ] {
            let said = refused(text);
            assert!(said.contains(why), "{text}: {said}");
        }
        let deep = format!("SELECT {}1{} FROM t", "(".repeat(1000), ")".repeat(1000));
        assert!(refused(&deep).contains("too deeply"), "{}", refused(&deep));
        for operator in ["+1", "=1", " IS NULL", "||'a'", "::int", " AND 1", "<1", " LIKE 'a'"] {
            let long = format!("SELECT 1{} FROM t", operator.repeat(3_000));
            assert!(refused(&long).contains("operators"), "{operator}");
        }
        let list = format!("SELECT a FROM t WHERE a IN ({}1)", "-1, ".repeat(3_000));
        assert!(AdqlQuery::parse(&list).is_ok());
        let mut point = "POINT(1, 2)".to_owned();
        for _ in 0..40 {
            point = format!("CENTROID(CIRCLE({point}, 1))");
        }
        assert!(refused(&format!("SELECT {point} FROM t")).contains("nested too deeply"));
        let tables: Vec<_> = (0..40).map(|number| format!("t AS t{number}")).collect();
        assert!(refused(&format!("SELECT 1 FROM {}", tables.join(", "))).contains("30 times"));
        assert!(refused("SELECT * FROM LATERAL generate_series(1, 10)").contains("no table"));
        assert!(refused("WITH RECURSIVE a AS (SELECT 1) SELECT * FROM a").contains("RECURSIVE"));
    }
}
