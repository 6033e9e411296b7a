//! Hand-made RESTORE payloads with a valid checksum.

use crate::client::Client;

/// Computes the checksum at the end of a DUMP: CRC-64 of Jones, reflected, as in Redis.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(
            crc ^ u64::from(byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x95AC_9329_AC4B_C9B5 } else { crc >> 1 },
        )
    })
}

/// The parts of a DUMP of a module's value.
pub struct Payload {
    /// The type of the value and the name of its module. The tests do not interpret them.
    pub head: Vec<u8>,
    pub body: Vec<u8>,
    pub tail: Vec<u8>,
}

impl Payload {
    pub fn of(c: &mut Client, key: &str) -> Self {
        let mut bytes = c.dump(key);
        let sum = bytes.split_off(bytes.len() - 8);
        assert_eq!(crc64(&bytes).to_le_bytes(), sum[..], "the checksum is the server's");
        let tail = bytes.split_off(bytes.len() - 2);
        let body = bytes.split_off(10);
        Payload { head: bytes, body, tail }
    }

    /// Calls RESTORE for `key` with a payload that has this body and a valid checksum. An existing key is replaced.
    /// Returns whether the server accepted the payload.
    pub fn restore(&self, c: &mut Client, key: &str, body: &[u8]) -> bool {
        let mut bytes = [&self.head, body, &self.tail].concat();
        bytes.extend(crc64(&bytes).to_le_bytes());
        c.try_call(redis::cmd("RESTORE").arg(key).arg(0).arg(bytes).arg("REPLACE")).is_ok()
    }
}
