//! Buckets that are not as they should be: the gate stays closed, the reason and whether it is for good are told, and as
//! soon as the bucket is mended the machine goes on by itself.

use std::fs;
use std::time::Instant;

use windlass_e2e::ground::{Bucket, Config, Ground, Keys, Lone};

use crate::sign::sign;
use crate::{Blow, LONG, STAY, comes_to_its_kubelet, quick, strike};

const TRY_AGAIN: u8 = 75;
const PERMANENT: u8 = 78;

/// A bucket by its prefix, and how a machine is to refuse it.
#[derive(Clone, Copy)]
struct Bad {
    what: &'static str,
    prefix: &'static str,
    word: &'static str,
    code: u8,
}

const BAD: [Bad; 6] = [
    Bad { what: "no .asc", prefix: "unsigned", word: "signature (.asc) is missing", code: PERMANENT },
    Bad { what: "no .minisig", prefix: "halfsigned", word: "signature (.minisig) is missing", code: PERMANENT },
    Bad { what: "another board", prefix: "board", word: "the manifest is for the board arm64-usr", code: PERMANENT },
    Bad { what: "another system", prefix: "system", word: "the manifest is for OS version 2", code: PERMANENT },
    Bad { what: "a wrong hash", prefix: "hash", word: "its digest should be", code: PERMANENT },
    Bad { what: "no manifest", prefix: "empty", word: "torcx_manifest.json: it is not there", code: TRY_AGAIN },
];
const OLDER: Bad =
    Bad { what: "an older signed manifest", prefix: "older", word: "this is a rollback", code: PERMANENT };
const MIDDLE: Bad = Bad {
    what: "gone in the middle of an archive",
    prefix: "middle",
    word: "no location gives kubelet-1.36.3-os1",
    code: TRY_AGAIN,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_bucket_that_is_not_as_it_should_be_keeps_the_gate_closed_until_it_is_mended() {
    let ground = Ground::with_channel("stable").await;
    let (older, good) = (ground.publish().await, ground.publish().await);
    for bad in BAD {
        ground.put_bucket(bad.prefix, &spoilt(&ground, &good, bad.prefix)).await;
    }
    ground.put_bucket(OLDER.prefix, &good).await;
    ground.put_bucket(MIDDLE.prefix, &good).await;
    let (keys, ground_, good_, older_) = (ground.own_keys(), &ground, &good, &older);
    let mut blows = vec![
        Blow::new(MIDDLE.what, MIDDLE.prefix, led(&MIDDLE, &keys, "--held-at=stage-addons"), async move |machine| {
            machine.is_held_at("stage-addons", LONG).await;
            ends_after_five_megabytes(&machine).await;
            machine.let_go().await;
            is_refused(&machine, &MIDDLE).await;
            goes_on(&machine, async || drop(machine.sh("nft delete table inet drill").await)).await
        }),
        Blow::new(OLDER.what, OLDER.prefix, led(&OLDER, &keys, "--held-at=install-addons"), async move |machine| {
            // By now the machine has followed the newer one.
            machine.is_held_at("install-addons", LONG).await;
            ground_.put_bucket(OLDER.prefix, older_).await;
            machine.let_go().await;
            is_refused(&machine, &OLDER).await;
            goes_on(&machine, async || ground_.put_bucket(OLDER.prefix, good_).await).await
        }),
    ];
    blows.extend(BAD.into_iter().map(|bad| {
        Blow::new(bad.what, bad.prefix, led(&bad, &keys, ""), async move |machine| {
            is_refused(&machine, &bad).await;
            goes_on(&machine, async || ground_.put_bucket(bad.prefix, good_).await).await
        })
    }));
    strike(&ground, blows).await;
    ground.leave().await;
}

fn spoilt(ground: &Ground, good: &Bucket, prefix: &str) -> Bucket {
    let good = good.clone();
    match prefix {
        "unsigned" => good.without(".asc"),
        "halfsigned" => good.without(".minisig"),
        "board" => {
            let other = good.manifest().replace("amd64-usr", "arm64-usr");
            let key = fs::read_to_string(ground.own_private_key()).expect("the host has published");
            good.with(".asc", &sign(&key, &other)).with("", &other)
        }
        "system" => good.mixed("amd64-usr/2/torcx_manifest", "amd64-usr/1/torcx_manifest"),
        "hash" => good.spoilt("kubelet", &ground.place()),
        "empty" => good.without(""),
        other => panic!("{other} is not spoilt"),
    }
}

/// A machine that looks there, and has to fetch its kubelet. It asks for one signature of the manifest that only one of
/// the two was made for.
fn led<'a>(bad: &Bad, keys: &'a Keys, flags: &'a str) -> impl FnOnce(Config) -> Config + 'a {
    let prefix = bad.prefix;
    move |machine| {
        let machine = quick(machine, &format!("{STAY} {flags}")).bucket(&format!("addons/{prefix}"));
        let machine = machine.without_kubelet();
        if prefix == "board" { machine.trusts_openpgp(keys) } else { machine.trusts(keys) }
    }
}

async fn is_refused(machine: &Lone<'_>, bad: &Bad) {
    machine.record_says(bad.word, LONG).await;
    machine.has_ended_with(bad.code, LONG).await;
    machine.has_no_gate().await;
    let other = if bad.code == PERMANENT { TRY_AGAIN } else { PERMANENT };
    assert_eq!(machine.ends_with(other).await, 0, "{}: it ended with {other}", bad.what);
}

async fn goes_on(machine: &Lone<'_>, mend: impl AsyncFnOnce()) -> String {
    let attempt = machine.record().await["attempt"].as_u64().unwrap_or_default();
    mend().await;
    let mended = Instant::now();
    comes_to_its_kubelet(machine, 1).await;
    format!("no kubelet in {attempt} attempts; mended, a kubelet after {:.1} s", mended.elapsed().as_secs_f64())
}

/// The bucket gives this much and then nothing, to nobody.
async fn ends_after_five_megabytes(machine: &Lone<'_>) {
    machine
        .sh("nft add table inet drill; nft add chain inet drill input '{ type filter hook input priority -300; }'; \
             nft add rule inet drill input tcp sport 80 quota over 5 mbytes drop")
        .await;
}
