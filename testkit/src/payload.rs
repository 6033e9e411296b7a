//! Payloads of RESTORE made by hand: with a checksum that is right, whatever else is not.

use crate::client::Client;
use redis::Value;

/// The checksum at the end of a DUMP: CRC-64 of Jones, reflected, as Redis computes it.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(
            crc ^ u64::from(byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x95AC_9329_AC4B_C9B5 } else { crc >> 1 },
        )
    })
}

/// The DUMP of a value of a module's type, taken apart.
pub struct Payload {
    /// The type of the value and the module it belongs to: not ours to read.
    pub head: Vec<u8>,
    pub body: Vec<u8>,
    /// The version of the format.
    pub tail: Vec<u8>,
}

impl Payload {
    pub fn of(c: &mut Client, key: &str) -> Self {
        let Value::BulkString(mut bytes) = c.run(&format!("DUMP {key}")) else { panic!("{key}") };
        let sum = bytes.split_off(bytes.len() - 8);
        assert_eq!(crc64(&bytes).to_le_bytes(), sum[..], "the checksum is the server's");
        let tail = bytes.split_off(bytes.len() - 2);
        let body = bytes.split_off(10);
        Payload { head: bytes, body, tail }
    }

    /// Restores another body, under a checksum that is right. Says whether the server took it.
    pub fn restore(&self, c: &mut Client, key: &str, body: &[u8]) -> bool {
        let mut bytes = [&self.head, body, &self.tail].concat();
        bytes.extend(crc64(&bytes).to_le_bytes());
        c.try_call(redis::cmd("RESTORE").arg(key).arg(0).arg(bytes).arg("REPLACE")).is_ok()
    }
}
