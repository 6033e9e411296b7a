//! Reads the string of a SLIDING limit (docs/formats.md) to find out when its units become available again. At most a
//! few kilobytes of the string are read.

use super::{Server, reply};
use redis::{Pipeline, RedisResult, Value, pipe};

const TAG: u64 = 8;
const SLOT: u64 = 16;

/// If a string has at most this many slots, the whole string is read with one command. In a longer string, a binary
/// search finds the newest slot.
const AT_ONCE: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    at_ms: u64,
    taken: u64,
}

/// Units that become available again at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub at_ms: u64,
    pub units: u64,
}

/// Returns when units of a limit become available again, in ascending order. Past times are left out. If there are more
/// than `most` times, only the latest `most` are returned.
pub async fn moments(server: &Server, key: &[u8], now_ms: u64, most: u64) -> RedisResult<Vec<Moment>> {
    let len = server.one(&[b"STRLEN", key]).await?;
    let slots = reply::count(&len).unwrap_or_default().saturating_sub(TAG) / SLOT;
    if slots <= AT_ONCE {
        return Ok(coming(&in_order(&read(server, ask(key, 0, slots)).await?), now_ms, most));
    }
    let Some(&first) = read(server, ask(key, 0, 1)).await?.first() else { return Ok(Vec::new()) };
    // Finds the oldest slot: the first slot with a smaller time than slot 0, or slot 0 if there is none. The slot
    // before the oldest is the newest.
    let (mut low, mut high) = (1, slots);
    while low < high {
        let middle = low + (high - low) / 2;
        match read(server, ask(key, middle, 1)).await?.first() {
            Some(slot) if slot.at_ms >= first.at_ms => low = middle + 1,
            _ => high = middle,
        }
    }
    // The units of a slot are computed from the slot before it, so one more slot is read.
    let wanted = (most + 1).min(slots);
    let mut pipe = ask(key, low.saturating_sub(wanted), wanted.min(low));
    if low < wanted {
        pipe = ask(key, slots - (wanted - low), wanted - low);
        range(&mut pipe, key, 0, low);
    }
    Ok(coming(&read(server, pipe).await?, now_ms, most))
}

fn range(pipe: &mut Pipeline, key: &[u8], from: u64, slots: u64) {
    let start = TAG + from * SLOT;
    pipe.cmd("GETRANGE").arg(key).arg(start).arg(start + slots * SLOT - 1);
}

fn ask(key: &[u8], from: u64, slots: u64) -> Pipeline {
    let mut pipe = pipe();
    range(&mut pipe, key, from, slots);
    pipe
}

async fn read(server: &Server, pipe: Pipeline) -> RedisResult<Vec<Slot>> {
    let replies: Vec<Value> = server.ask(pipe).await?.into_iter().collect::<RedisResult<_>>()?;
    Ok(replies.iter().flat_map(|part| decode(reply::bytes(part).unwrap_or_default())).collect())
}

fn decode(bytes: &[u8]) -> Vec<Slot> {
    let (slots, _) = bytes.as_chunks::<{ SLOT as usize }>();
    let number = |half: &[u8]| half.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    slots.iter().map(|slot| Slot { at_ms: number(&slot[..8]), taken: number(&slot[8..]) }).collect()
}

/// Rotates the slots of a ring, so that the oldest comes first. `slots` must contain all slots of the ring.
fn in_order(slots: &[Slot]) -> Vec<Slot> {
    let Some(first) = slots.first() else { return Vec::new() };
    let seam = slots.iter().position(|slot| slot.at_ms < first.at_ms).unwrap_or(0);
    [&slots[seam..], &slots[..seam]].concat()
}

fn coming(slots: &[Slot], now_ms: u64, most: u64) -> Vec<Moment> {
    let moments = slots.windows(2).filter_map(|pair| {
        let units = pair[1].taken.wrapping_sub(pair[0].taken);
        // A client may have changed the limit between two reads.
        let is_slot = pair[0].at_ms < pair[1].at_ms && (1..1 << 53).contains(&units);
        (is_slot && pair[1].at_ms > now_ms).then_some(Moment { at_ms: pair[1].at_ms, units })
    });
    let mut moments: Vec<_> = moments.collect();
    moments.drain(..moments.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX)));
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(pairs: &[(u64, u64)]) -> Vec<Slot> {
        pairs.iter().map(|&(at_ms, taken)| Slot { at_ms, taken }).collect()
    }

    fn shown(pairs: &[(u64, u64)], now_ms: u64, most: u64) -> Vec<(u64, u64)> {
        let moments = coming(&in_order(&slots(pairs)), now_ms, most);
        moments.iter().map(|moment| (moment.at_ms, moment.units)).collect()
    }

    #[test]
    fn a_ring_is_read_from_its_oldest_slot_to_its_newest() {
        let ring = [(40, 9), (50, 12), (10, 1), (20, 5), (30, 5)];
        assert_eq!(shown(&ring, 0, 100), [(20, 4), (40, 4), (50, 3)]);
        assert_eq!(shown(&ring, 40, 100), [(50, 3)]);
        assert_eq!(shown(&ring, 0, 2), [(40, 4), (50, 3)]);
        assert_eq!(shown(&ring, 50, 100), []);
    }

    #[test]
    fn slots_never_written_and_numbers_that_wrap_around_are_no_units() {
        assert_eq!(shown(&[(10, u64::MAX), (20, 1), (0, u64::MAX), (0, u64::MAX)], 0, 9), [(10, 0), (20, 2)][1..]);
        assert_eq!(shown(&[], 0, 9), []);
        assert_eq!(shown(&[(10, 1)], 0, 9), []);
        assert_eq!(shown(&[(10, 1), (20, 0)], 0, 9), [], "garbage");
    }

    #[test]
    fn a_slot_is_two_numbers() {
        let mut bytes = Vec::from(1_795_419_831_257_u64.to_le_bytes());
        bytes.extend(4_u64.to_le_bytes());
        bytes.push(1);
        assert_eq!(decode(&bytes), slots(&[(1_795_419_831_257, 4)]));
    }
}
