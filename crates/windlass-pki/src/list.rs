//! What `windlass certs list` shows: every certificate of a set at a moment, and the first date on
//! which anything breaks.

use std::cmp::Ordering;

use serde::Serialize;
use time::OffsetDateTime;

use crate::pki::{CertificateName, Pki};
use crate::table::{AUTHORITIES, LEAVES};
use crate::template::{San, Subject};

/// Every certificate of a set, as of a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// The certificates, in the order of the table.
    pub certificates: Vec<Listed>,
    /// What breaks first.
    pub first_break: Break,
}

/// A certificate in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// Its row in the table.
    pub name: &'static str,
    /// The row of its authority; an authority signs itself.
    pub signer: &'static str,
    /// Whom it names.
    pub subject: Subject,
    /// What it answers to.
    pub sans: Vec<San>,
    /// From when it is valid.
    #[serde(serialize_with = "time::serde::rfc3339::serialize")]
    pub not_before: OffsetDateTime,
    /// Until when it is valid.
    #[serde(serialize_with = "time::serde::rfc3339::serialize")]
    pub expiry: OffsetDateTime,
    /// Whole days until it expires; negative once it has.
    pub days_left: i64,
}

/// The first certificate to expire, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Break {
    /// Its row in the table.
    pub name: &'static str,
    /// Until when it is valid.
    #[serde(serialize_with = "time::serde::rfc3339::serialize")]
    pub expiry: OffsetDateTime,
    /// Whole days until then; negative once it has passed.
    pub days_left: i64,
}

impl Listing {
    /// Lists a set as of a moment.
    pub fn of(pki: &Pki, now: OffsetDateTime) -> Self {
        let authorities = AUTHORITIES.iter().map(|row| listed(pki, row.authority.into(), row.name, row.name, now));
        let leaves = LEAVES.iter().map(|row| listed(pki, row.leaf.into(), row.name, row.signer.row().name, now));
        let certificates: Vec<Listed> = authorities.chain(leaves).collect();
        let first = certificates.iter().min_by_key(|listed| listed.expiry).expect("the table has rows");
        let first_break = Break { name: first.name, expiry: first.expiry, days_left: first.days_left };
        Listing { certificates, first_break }
    }

    /// The listing as a table for people, with the first break below it.
    pub fn to_text(&self) -> String {
        let head = ["NAME", "SIGNER", "EXPIRES", "DAYS LEFT", "SUBJECT", "SANS"].map(str::to_owned);
        let rows: Vec<_> = std::iter::once(head).chain(self.certificates.iter().map(cells)).collect();
        let widths: [usize; 6] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or_default());
        let mut text = String::new();
        for row in &rows {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&self.first_break.sentence());
        text.push('\n');
        text
    }
}

impl Break {
    fn sentence(&self) -> String {
        let Break { name, days_left, .. } = self;
        let date = self.expiry.date();
        match days_left.cmp(&0) {
            Ordering::Less => format!("broken since {date}: {name} has expired"),
            Ordering::Equal => format!("first to break: {name} on {date}, within a day"),
            Ordering::Greater => format!("first to break: {name} on {date}, in {days_left} days"),
        }
    }
}

fn listed(
    pki: &Pki,
    certificate: CertificateName,
    name: &'static str,
    signer: &'static str,
    now: OffsetDateTime,
) -> Listed {
    let certificate = pki.certificate(certificate);
    let seconds_left = (certificate.not_after() - now).whole_seconds();
    Listed {
        name,
        signer,
        subject: certificate.subject().clone(),
        sans: certificate.sans().to_vec(),
        not_before: certificate.not_before(),
        expiry: certificate.not_after(),
        days_left: seconds_left.div_euclid(24 * 3600),
    }
}

fn cells(listed: &Listed) -> [String; 6] {
    let sans: Vec<String> = listed.sans.iter().map(San::to_string).collect();
    [
        listed.name.to_owned(),
        listed.signer.to_owned(),
        listed.expiry.date().to_string(),
        listed.days_left.to_string(),
        listed.subject.to_string(),
        if sans.is_empty() { "-".to_owned() } else { sans.join(",") },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Leaf;
    use crate::testing::{DAY, NOW, pki};

    #[test]
    fn the_first_break_is_the_earliest_expiry() {
        let listing = Listing::of(pki(), NOW);
        assert_eq!(listing.certificates.len(), AUTHORITIES.len() + LEAVES.len());
        assert!(listing.certificates.iter().all(|c| c.expiry >= listing.first_break.expiry));
        assert_eq!(listing.first_break.days_left, LEAVES.iter().map(|row| row.lifetime_days() as i64).min().unwrap());
    }

    #[test]
    fn days_left_are_whole_and_fall_below_zero_at_expiry() {
        let expiry = pki().certificate(Leaf::ApiServer).not_after();
        for (now, days) in [(expiry - DAY, 1), (expiry - DAY / 2, 0), (expiry, 0), (expiry + DAY / 2, -1)] {
            assert_eq!(Listing::of(pki(), now).certificates[AUTHORITIES.len()].days_left, days, "{now}");
        }
    }

    #[test]
    fn the_text_has_a_line_for_each_certificate_and_says_what_breaks_first() {
        let listing = Listing::of(pki(), NOW);
        let text = listing.to_text();
        assert_eq!(text.lines().count(), 1 + listing.certificates.len() + 2);
        let apiserver = text.lines().find(|line| line.starts_with("apiserver ")).unwrap();
        assert!(apiserver.contains(" CN=kube-apiserver ") && apiserver.contains(",api.demo.test,"), "{apiserver}");
        // 334 days after the first of March.
        assert!(apiserver.contains(" 2027-01-29 ") && apiserver.contains(" 334 "), "{apiserver}");
        let Break { name, expiry, days_left } = &listing.first_break;
        let last = format!("first to break: {name} on {}, in {days_left} days", expiry.date());
        assert_eq!(text.lines().last().unwrap(), last);
    }

    #[test]
    fn an_expired_set_says_since_when() {
        let listing = Listing::of(pki(), NOW + DAY * 400);
        assert!(listing.to_text().contains("broken since "));
        assert!(listing.first_break.days_left < 0);
    }

    #[test]
    fn the_data_have_names_dates_and_no_key() {
        let data = serde_json::to_value(Listing::of(pki(), NOW)).unwrap();
        let apiserver = &data["certificates"][AUTHORITIES.len()];
        assert_eq!(apiserver["name"], "apiserver");
        assert_eq!(apiserver["signer"], "ca");
        assert_eq!(apiserver["sans"][0], "kubernetes");
        assert!(apiserver["expiry"].as_str().unwrap().ends_with('Z'));
        assert!(data["firstBreak"]["daysLeft"].is_i64());
    }
}
