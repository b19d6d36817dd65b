//! Malformed commands.

use tidegate_testkit::Random;

use super::{corrupt, random_bytes};
use crate::serve::resp::command;

pub(crate) fn random_input(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => random_bytes(random, 14),
        1..=3 => {
            let bytes = valid_commands(random);
            corrupt(random, bytes)
        }
        4 | 5 => absurd_lengths(random),
        6 => {
            let line: String =
                (0..random.of_bits(1, 14)).map(|_| random.pick(&['"', '\'', '\\', ' ', 'x', '\0', '\u{fc}'])).collect();
            format!("ECHO {line}\r\n").into_bytes()
        }
        _ => {
            let deep = random.pick(&["*1\r\n", "*0\r\n", "*-1\r\n", "\r\n", "$0\r\n", "%1\r\n", ">1\r\n"]);
            deep.repeat(random.of_bits(1, 14) as usize).into_bytes()
        }
    }
}

fn valid_commands(random: &mut Random) -> Vec<u8> {
    let word = "w".repeat(random.of_bits(1, 13) as usize);
    let commands: [&[&str]; 9] = [
        &["CL.THROTTLE", "u", "15", "30", "60"],
        &["THROTTLE", "u", "15", "30", "60", "2"],
        &["TG.LIMIT", "shop.user", "u", "1"],
        &["TG.CHECK", "shop.user", &word],
        &["PING"],
        &["HELLO", "3"],
        &["ECHO", &word],
        &["INFO"],
        &["COMMAND"],
    ];
    (0..random.between(1, 8)).flat_map(|_| command(random.pick(&commands))).collect()
}

/// Absurd lengths.
fn absurd_lengths(random: &mut Random) -> Vec<u8> {
    let lengths = [
        "-2",
        "-1",
        "00000000001",
        "65",
        "8193",
        "33000",
        "2147483647",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "99999999999999999999",
        "+1",
        "1x",
        "",
    ];
    let (length, more) = (random.pick(&lengths), "x".repeat(random.of_bits(1, 17) as usize));
    match random.below(4) {
        0 => format!("*{length}\r\n{more}"),
        1 => format!("*2\r\n$4\r\nECHO\r\n${length}\r\n{more}"),
        2 => format!("*{length}\r\n{}", "$1\r\nx\r\n".repeat(more.len() / 7)),
        // A length that never ends.
        _ => format!("{}{}", random.pick(&["*", "$", "*1\r\n$"]), "1".repeat(more.len())),
    }
    .into_bytes()
}
