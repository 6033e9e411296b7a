/**
 * Cron expressions on the wall clock of a zone. clients/cron-cases.json defines what they mean, for Node.js and Python.
 * This module reads no clock and does no I/O.
 *
 * Five fields: minute, hour, day of the month, month, day of the week. If neither of the two fields for days begins
 * with `*`, a day has to match only one of them. If the clock is set forward, a job due at a skipped time runs later by
 * the length of the skip. If the clock is set back, a job due at a repeated time runs once. But a job whose hour field
 * begins with `*` runs twice.
 */

const NICKNAMES: Readonly<Record<string, string>> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
};

const MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split(" ");
const WEEKDAYS = "sun mon tue wed thu fri sat".split(" ");

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * A time longer than the UTC offset of any time zone. At midnight UTC minus FAR, no zone has reached the new day. At
 * midnight UTC plus FAR, no zone is still in the old day.
 */
const FAR = 15 * HOUR;

/** In any period of this many days, 29 February falls on each day of the week at least once. */
const LONGEST_DAYS = 366 * 45;

export class Calendar {
  readonly #minutes: ReadonlySet<number>;
  readonly #hours: ReadonlySet<number>;
  readonly #days: ReadonlySet<number>;
  readonly #months: ReadonlySet<number>;
  readonly #weekdays: ReadonlySet<number>;
  readonly #isEitherDay: boolean;
  readonly #isEveryHour: boolean;
  readonly #format: Intl.DateTimeFormat;

  constructor(expression: string, zone: string) {
    const words = (NICKNAMES[expression.trim().toLowerCase()] ?? expression).trim().split(/[ \t]+/);
    const [minute, hour, day, month, weekday] = words;
    if (minute === undefined || hour === undefined || day === undefined || month === undefined || weekday === undefined || words.length > 5) {
      throw new RangeError(`expected five fields such as "0 3 * * 1-5", not "${expression}"`);
    }
    this.#minutes = field(minute, 0, 59);
    this.#hours = field(hour, 0, 23);
    this.#days = field(day, 1, 31);
    this.#months = field(month, 1, 12, MONTHS);
    // 0 and 7 are Sunday.
    this.#weekdays = new Set([...field(weekday, 0, 7, WEEKDAYS)].map((number) => number % 7));
    this.#isEitherDay = !day.startsWith("*") && !weekday.startsWith("*");
    this.#isEveryHour = hour.startsWith("*");
    const parts = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" } as const;
    this.#format = new Intl.DateTimeFormat("en-US", { timeZone: zone, calendar: "iso8601", hourCycle: "h23", ...parts });
  }

  /** Returns the first moment after `afterMs`, in Unix ms; null if there is none. */
  next(afterMs: number): number | null {
    // If the clock was set forward, a time of yesterday may occur today.
    const first = Math.floor((afterMs + this.#offset(afterMs)) / DAY) - 1;
    for (let day = first; day < first + LONGEST_DAYS; day += 1) {
      if (!this.#hasDay(day * DAY)) continue;
      const moments = this.#moments(day * DAY, afterMs);
      if (moments.length === 0) continue;
      const later = this.#hasDay((day + 1) * DAY) ? this.#moments((day + 1) * DAY, afterMs) : [];
      return [...moments, ...later].reduce((a, b) => Math.min(a, b));
    }
    return null;
  }

  /**
   * Returns whether a day matches. `dayMs` is the day's midnight. The class stores every time of the wall clock as if
   * it were in UTC.
   */
  #hasDay(dayMs: number): boolean {
    const date = new Date(dayMs);
    if (!this.#months.has(date.getUTCMonth() + 1)) return false;
    const [day, weekday] = [this.#days.has(date.getUTCDate()), this.#weekdays.has(date.getUTCDay())];
    return this.#isEitherDay ? day || weekday : day && weekday;
  }

  /** Returns the moments after `afterMs` at which the expression matches on a day. */
  #moments(dayMs: number, afterMs: number): number[] {
    const before = this.#offset(dayMs - FAR);
    const after = this.#offset(dayMs + DAY + FAR);
    const moments: number[] = [];
    for (const hour of this.#hours) {
      for (const minute of this.#minutes) {
        const wallMs = dayMs + hour * HOUR + minute * MINUTE;
        moments.push(...(before === after ? [wallMs - before] : this.#atChange(wallMs, before, after)));
      }
    }
    return moments.filter((moment) => moment > afterMs);
  }

  /**
   * Converts a wall time to Unix ms, on a day on which the offset from UTC changes. A wall time that occurs twice can
   * give two results. `before` and `after` are the offsets before and after the change.
   */
  #atChange(wallMs: number, before: number, after: number): number[] {
    const moments = [wallMs - before, wallMs - after];
    const [first, second] = moments.filter((moment) => this.#offset(moment) === wallMs - moment) as [number?, number?];
    // The change skips this time. So the job runs at the moment that the old offset gives.
    if (first === undefined) return [wallMs - before];
    return second === undefined || !this.#isEveryHour ? [first] : [first, second];
  }

  /** Returns how far the wall clock is ahead of UTC. */
  #offset(ms: number): number {
    const parts = Object.fromEntries(this.#format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / 1000) * 1000;
  }
}

/** Parses a field of a cron expression, such as `1,5-9/2` or `mon-fri`. Returns all its values. */
function field(text: string, low: number, high: number, names: readonly string[] = []): ReadonlySet<number> {
  const number = (word: string): number => {
    const name = names.indexOf(word.toLowerCase());
    const value = name >= 0 ? name + low : /^\d+$/.test(word) ? Number(word) : NaN;
    if (!(value >= low && value <= high)) throw new RangeError(`expected ${low} to ${high} in a cron expression, not "${word}" in "${text}"`);
    return value;
  };
  const found = new Set<number>();
  for (const item of text.split(",")) {
    const [, range = "", step] = /^([^/]*)(?:\/(\d+))?$/.exec(item) ?? [];
    const [first = "", last, ...more] = range.split("-");
    const isAll = range === "*";
    const [from, to] = isAll ? [low, high] : [number(first), number(last ?? first)];
    const by = Number(step ?? 1);
    if (more.length > 0 || to < from || by < 1 || (step !== undefined && !isAll && last === undefined)) {
      throw new RangeError(`expected numbers, ranges and steps such as "1,5-9/2" or "*/15" in a cron expression, not "${item}"`);
    }
    for (let value = from; value <= to; value += by) found.add(value);
  }
  return found;
}
