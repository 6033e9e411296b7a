//! Statements that the compiler must refuse, because they would crash the server. This file is not part of the module:
//! tests/repository/refused.rs compiles it. The name of a function begins with the error that the compiler must report
//! in this function. A function `allowed` must compile, so that the errors of the other functions have the right cause.
//!
//! The compiler checks types first, and reports borrow errors only if all types are right. So the test compiles the two
//! modules one after the other.

/// A key that is open for reading has no method that changes it. An open key has no method that returns its TTL: if the
/// key is missing, such a call would crash Redis 8.6. Only the context of a command can block a client.
#[cfg(refused = "types")]
mod types {
    use crate::server::blocking::{Blockable, CallingClient, Wait};
    use crate::server::data_type::DataType;
    use crate::server::key::{ReadKey, WriteKey};
    use crate::server::{Context, Str};

    fn allowed<T: DataType>(ctx: &mut Context, name: Str<'_>) {
        ReadKey::open(ctx, name).key_type();
        let mut key = WriteKey::open(ctx, name);
        key.expire_at(1);
        let _ = key.value_mut::<T>();
        key.unlink();
    }

    fn e0599_unlink_when_reading(ctx: &mut Context, name: Str<'_>) {
        ReadKey::open(ctx, name).unlink();
    }

    fn e0599_expire_when_reading(ctx: &mut Context, name: Str<'_>) {
        ReadKey::open(ctx, name).expire_at(1);
    }

    fn e0599_change_a_value_when_reading<T: DataType>(ctx: &mut Context, name: Str<'_>) {
        let _ = ReadKey::open(ctx, name).value_mut::<T>();
    }

    fn e0599_ask_for_the_ttl_when_writing(ctx: &mut Context, name: Str<'_>) {
        WriteKey::open(ctx, name).expires_at();
    }

    fn e0599_block_twice_with_a_copy<W: Wait>(ctx: &Context, client: Blockable<'_>, one: W, other: W) {
        ctx.block(client.clone(), b"", 0, one);
        ctx.block(client, b"", 0, other);
    }

    fn e0423_block_in_a_timer<W: Wait>(ctx: &Context, wait: W) {
        let client = Blockable(CallingClient::of(&()));
        ctx.block(client, b"", 0, wait);
    }
}

/// While a key is open, no code of another module may run, and no other reference into the value may exist.
#[cfg(refused = "borrows")]
mod borrows {
    use crate::server::blocking::{Blockable, CallingClient, Wait};
    use crate::server::context::EventClass;
    use crate::server::data_type::DataType;
    use crate::server::key::{ReadKey, WriteKey};
    use crate::server::{Context, Str};

    fn allowed<W: Wait>(ctx: &mut Context, name: Str<'_>, client: CallingClient<'_>, wait: W) {
        let key = WriteKey::open(ctx, name);
        key.key_type();
        let ctx = key.close();
        ctx.notify(EventClass::Module, c"event", name);
        let _ = ctx.check_right_to_restore(name);
        if let Some(client) = client.blockable(ctx) {
            ctx.block(client, b"", 0, wait);
        }
    }

    fn e0499_send_an_event(ctx: &mut Context, name: Str<'_>) {
        let key = WriteKey::open(ctx, name);
        ctx.notify(EventClass::Module, c"event", name);
        key.key_type();
    }

    fn e0499_call_a_command(ctx: &mut Context, name: Str<'_>) {
        let key = WriteKey::open(ctx, name);
        let _ = ctx.count_above(name, 1);
        key.key_type();
    }

    fn e0499_check_the_right_to_restore(ctx: &mut Context, name: Str<'_>) {
        let key = WriteKey::open(ctx, name);
        let _ = ctx.check_right_to_restore(name);
        key.key_type();
    }

    fn e0499_check_the_right_to_restore_when_reading(ctx: &mut Context, name: Str<'_>) {
        let key = ReadKey::open(ctx, name);
        let shared = key.shared_ctx();
        drop(key);
        let _ = ctx.check_right_to_restore(name);
        shared.now();
    }

    fn e0499_open_another_key(ctx: &mut Context, name: Str<'_>) {
        let key = WriteKey::open(ctx, name);
        let _ = WriteKey::open(ctx, name);
        key.key_type();
    }

    fn e0499_open_a_key_for_reading(ctx: &mut Context, name: Str<'_>) {
        let key = WriteKey::open(ctx, name);
        ReadKey::open(ctx, name);
        key.key_type();
    }

    fn e0499_borrow_a_value_twice<T: DataType>(ctx: &mut Context, name: Str<'_>) {
        let mut key = WriteKey::open(ctx, name);
        let (one, other) = (key.value_mut::<T>(), key.value_mut::<T>());
        drop((one, other));
    }

    fn e0382_use_a_closed_key(ctx: &mut Context, name: Str<'_>) {
        let key = WriteKey::open(ctx, name);
        key.close();
        key.key_type();
    }

    fn e0382_use_a_removed_key(ctx: &mut Context, name: Str<'_>) {
        let key = WriteKey::open(ctx, name);
        key.unlink();
        key.key_type();
    }

    fn e0382_use_a_key_after_its_value_was_set<T: DataType>(ctx: &mut Context, name: Str<'_>, value: T) {
        let key = WriteKey::open(ctx, name);
        key.set_value(value);
        key.key_type();
    }

    fn e0382_block_twice<W: Wait>(ctx: &Context, client: Blockable<'_>, one: W, other: W) {
        ctx.block(client, b"", 0, one);
        ctx.block(client, b"", 0, other);
    }

    fn e0521_keep_the_right_to_block(client: CallingClient<'_>) {
        keep(client);
    }

    fn keep(_: CallingClient<'static>) {}
}
