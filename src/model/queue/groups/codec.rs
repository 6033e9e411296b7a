//! The groups in the serialised form: their names and units, in the order of their turns. A job says which of them is its own by a
//! number, 1 for the first one; a job without a group says nothing.

use crate::model::queue::Queue;
use crate::model::queue::decode_error::{DecodeError, ensure, narrow};
use crate::model::queue::rate::Taken;
use crate::model::stream::{Reader, Writer};
use std::collections::HashMap;

/// The groups of a queue that is being read.
pub(in crate::model::queue) struct Saved(Vec<(Vec<u8>, Vec<Taken>)>);

impl Queue {
    /// Writes them, but not how many; answers with the number that each name has.
    pub(in crate::model::queue) fn write_groups(&self, to: &mut impl Writer) -> HashMap<&[u8], u64> {
        for (name, units) in self.turns() {
            to.bytes(name);
            to.number(units.len() as u64);
            for taken in units {
                to.number(taken.back_at);
                to.number(taken.units);
            }
        }
        self.turns().zip(1..).map(|((name, _), number)| (name, number)).collect()
    }
}

impl Saved {
    pub fn read(count: u64, from: &mut impl Reader) -> Result<Saved, DecodeError> {
        let mut groups = Vec::new();
        for _ in 0..count {
            let name = from.bytes()?.as_ref().to_vec();
            let mut units = Vec::new();
            for _ in 0..from.number()? {
                units.push(Taken { back_at: from.number()?, units: from.number()? });
            }
            groups.push((name, units));
        }
        Ok(Saved(groups))
    }

    /// The name to a number of a job.
    pub fn name(&self, number: u64) -> Result<&[u8], DecodeError> {
        let number: usize = narrow(number, "number of a group out of range")?;
        let group = number.checked_sub(1).and_then(|at| self.0.get(at)).filter(|(name, _)| !name.is_empty());
        group.map(|(name, _)| name.as_slice()).ok_or(DecodeError::Invalid("job of an unknown group"))
    }

    /// Gives the groups their units and turns, when all jobs are in.
    pub fn restore(&self, queue: &mut Queue) -> Result<(), DecodeError> {
        for (name, units) in &self.0 {
            for &taken in units {
                ensure(queue.restore_units(name, taken), "impossible units of a group")?;
            }
            ensure(queue.restore_turn(name), "a group with neither jobs nor units")?;
        }
        Ok(())
    }
}
