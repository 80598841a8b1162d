//! Marks in user-data. A group of machines shares one text; `@token(<purpose>)@` in it becomes a token of the machine that
//! reads it.

use thiserror::Error;

use super::Label;

const BEGIN: &str = "@token(";
const END: &str = ")@";

/// A stretch of user-data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Goes out as it is.
    Text(&'a str),
    /// A token goes here.
    Token(Label),
}

/// Why user-data cannot be handed out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the user-data has a mark that is none at byte {at}: {BEGIN}<purpose>{END} is wanted")]
pub struct TemplateError {
    /// Where the mark begins.
    pub at: usize,
}

/// Cuts the text at its marks.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find(BEGIN) {
        let begin = at + found;
        let inside = begin + BEGIN.len();
        let length = text[inside..].find(END).ok_or(TemplateError { at: begin })?;
        let purpose = Label::parse(&text[inside..inside + length]).map_err(|_| TemplateError { at: begin })?;
        pieces.extend([Piece::Text(&text[at..begin]), Piece::Token(purpose)]);
        at = inside + length + END.len();
    }
    pieces.push(Piece::Text(&text[at..]));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(text: &str) -> Result<String, TemplateError> {
        let pieces = pieces(text)?;
        Ok(pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => (*text).to_owned(),
                Piece::Token(purpose) => format!("<{purpose}>"),
            })
            .collect())
    }

    #[test]
    fn marks_become_tokens_and_the_rest_stays() {
        let cases = [
            ("", Ok("")),
            ("plain", Ok("plain")),
            (r#"{"value":"@token(config)@"}"#, Ok(r#"{"value":"<config>"}"#)),
            ("@token(a)@@token(b)@ and @token(a)@.", Ok("<a><b> and <a>.")),
            ("mail@token.example (x)@", Ok("mail@token.example (x)@")),
            ("x@token(a", Err(1)),
            ("@token()@", Err(0)),
            ("ok @token(a)@ @token(A B)@", Err(14)),
            ("@token(@token(a)@)@", Err(0)),
        ];
        for (text, want) in cases {
            let want = want.map(str::to_owned).map_err(|at| TemplateError { at });
            assert_eq!(filled(text), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_without_marks_is_unchanged(text in "[^@]*(@[^t][^@]*)*") {
            prop_assert_eq!(filled(&text).unwrap(), text);
        }
    }
}
