/**
 * The fixed windows of a quota, from the shortest: all code follows this list. Where it names the minute it means the shortest, and
 * by the day the longest, which is that of the calendar. suffix: what follows on a count of the window for a person.
 */
export const windows = [
  { name: 'minute', lengthMs: 60_000, limit: 'perMinute', most: 1_000_000_000, suffix: '' },
  { name: 'day', lengthMs: 86_400_000, limit: 'perDay', most: 1_000_000_000_000, suffix: ' today' },
] as const

export type FixedWindow = (typeof windows)[number]
export type WindowName = FixedWindow['name']
/** Key of a window's limit in a configuration. */
export type LimitKey = FixedWindow['limit']

export const windowNames = windows.map(({ name }) => name)
export const limitKeys = windows.map(({ limit }) => limit)

/** A value for each window, by its name. */
export type PerWindow<Value> = Readonly<Record<WindowName, Value>>

/** Makes a value for each window. It is written out, as an object made from a list costs far more. */
export const perWindow = <Value>(
  valueOf: (window: FixedWindow, number: number) => Value,
): PerWindow<Value> => ({ minute: valueOf(windows[0], 0), day: valueOf(windows[1], 1) })

/** Makes a value for each window from another one. It is written out, as looking one up by its name costs more. */
export const mapWindows = <Given, Value>(
  { minute, day }: PerWindow<Given>,
  valueOf: (given: Given) => Value,
): PerWindow<Value> => ({ minute: valueOf(minute), day: valueOf(day) })

/** The value of one window; the shortest is asked by its own name, as a look-up by names that take turns costs more. */
export const ofWindow = <Value>(values: PerWindow<Value>, name: WindowName): Value =>
  name === 'minute' ? values.minute : values[name]

/** Name of the field that has a window's part of a flat row, such as `refusedDay`. */
export const fieldOf = <Prefix extends string>(prefix: Prefix, name: WindowName) =>
  `${prefix}${name.charAt(0).toUpperCase()}${name.slice(1)}` as `${Prefix}${Capitalize<WindowName>}`

/** A value for each window, by the key of its limit. */
export const byLimit = <Value>(valueOf: (window: FixedWindow) => Value): Record<LimitKey, Value> =>
  Object.fromEntries(windows.map((window) => [window.limit, valueOf(window)])) as Record<
    LimitKey,
    Value
  >

export const { minute: MINUTE_MS, day: DAY_MS } = perWindow(({ lengthMs }) => lengthMs)
