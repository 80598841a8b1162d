//! Where two texts first differ, in the form of a unified difference.

const LONGEST: usize = 160;
const LINES: usize = 3;

/// The first lines that differ, with the line before them; nothing if the texts are the same.
pub fn first_difference(there: &str, made: &str) -> Option<String> {
    if there == made {
        return None;
    }
    let (old, new): (Vec<_>, Vec<_>) = (there.split('\n').collect(), made.split('\n').collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let mut shown = vec![format!("@@ line {} @@", same + 1)];
    shown.extend(same.checked_sub(1).map(|before| format!(" {}", short(old[before], 0))));
    let from = common_prefix(old.get(same).unwrap_or(&""), new.get(same).unwrap_or(&""));
    shown.extend(old.iter().skip(same).take(LINES).map(|line| format!("-{}", short(line, from))));
    shown.extend(new.iter().skip(same).take(LINES).map(|line| format!("+{}", short(line, from))));
    Some(shown.join("\n"))
}

fn common_prefix(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

/// The part of a long line around the place that matters: generated data may be a single line.
fn short(line: &str, from: usize) -> String {
    let skipped = from.saturating_sub(LONGEST / 2);
    let part: String = line.chars().skip(skipped).take(LONGEST).collect();
    let (head, tail) = (skipped > 0, line.chars().count() > skipped + LONGEST);
    format!("{}{part}{}", if head { "[…]" } else { "" }, if tail { "[…]" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_has_no_difference() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("", ""), None);
    }

    #[test]
    fn the_first_difference_is_shown_with_the_line_before() {
        let cases = [
            ("a\nb\nc\n", "a\nx\nc\n", "@@ line 2 @@\n a\n-b\n-c\n-\n+x\n+c\n+"),
            ("a\n", "b\n", "@@ line 1 @@\n-a\n-\n+b\n+"),
            ("a", "a\n", "@@ line 2 @@\n a\n+"),
            ("a\nb", "a", "@@ line 2 @@\n a\n-b"),
        ];
        for (there, made, want) in cases {
            assert_eq!(first_difference(there, made).unwrap(), want);
        }
    }

    #[test]
    fn a_long_line_is_cut_around_the_difference() {
        let (there, made) = (format!("{}x{}", "é".repeat(1000), "a".repeat(1000)), "é".repeat(2000));
        let shown = first_difference(&there, &made).unwrap();
        assert!(shown.contains("éx"), "{shown}");
        assert!(shown.chars().count() < 400, "{shown}");
    }
}
