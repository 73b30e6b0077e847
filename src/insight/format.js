/** Formats numbers, times and tables for the page and the command line. Nothing here reads a clock or the document. */
import { perWindow, windowNames, windows } from '../config/time.ts'

/** Stands for an unknown value, which is not 0. */
export const UNKNOWN = '–'

/** As Intl would write it, which loads the data of languages: 7 MB of every process that formats a number. @param {number} number */
const whole = (number) => String(Math.round(number)).replace(/\B(?=(?:\d{3})+$)/g, ',')

/** Writes a known number, or else a dash. @param {number | null | undefined} value @param {(value: number) => string} write */
const known = (value, write) => (value === null || value === undefined ? UNKNOWN : write(value))

/** Whole number: 9,204 @param {number | null | undefined} value */
export const count = (value) => known(value, whole)

/** Whole number, shortened from ten million on: 12.4M @param {number | null | undefined} value */
export const compact = (value) =>
  known(value, (number) =>
    number < 10_000_000 ? whole(number) : `${(number / 1_000_000).toFixed(1)}M`,
  )

/** Rate per second: 3.4, 31, 1,204 @param {number | null | undefined} value */
export const rate = (value) =>
  known(value, (number) => {
    if (number > 0 && number < 0.05) return '<0.1'
    return number < 9.95 && !Number.isInteger(number) ? number.toFixed(1) : whole(number)
  })

/** Share of 1 as a percentage; nothing below the limit is rounded up to 100%. @param {number | null | undefined} share */
export const percent = (share) =>
  known(share, (number) => {
    if (number > 0 && number < 0.01) return '<1%'
    return `${number < 1 ? Math.min(99, Math.round(number * 100)) : Math.floor(number * 100)}%`
  })

/** @param {number} value @param {string} one @param {string} [many] */
export const plural = (value, one, many = `${one}s`) =>
  `${count(value)} ${value === 1 ? one : many}`

/** @type {readonly (readonly [string, number])[]} */
const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
]

/** Duration in no more than `most` units: 9 h 52 min, 41 s, 8.2 ms @param {number | null | undefined} value @param {number} [most] */
export const duration = (value, most = 2) =>
  known(value, (number) => {
    if (number < 1_000) return `${Number(number.toPrecision(2))} ms`
    const at = units.findIndex(([, size]) => number >= size)
    const parts = []
    let rest = number
    for (const [unit, size] of units.slice(at, at + most)) {
      const amount = Math.floor(rest / size)
      rest -= amount * size
      if (amount > 0) parts.push(`${amount} ${unit}`)
    }
    return parts.join(' ')
  })

/** Latency with two digits: 0.9 ms, 31 ms, 1.2 s @param {number | null | undefined} value */
export const latency = (value) =>
  known(value, (number) => {
    const digits = Number(number.toPrecision(2))
    return digits < 1_000 ? `${digits} ms` : `${digits / 1_000} s`
  })

/** Size: 1.5 GiB, 92 MiB, 512 B @param {number | null | undefined} value */
export const bytes = (value) =>
  known(value, (number) => {
    const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
    let amount = number
    let at = 0
    while (amount >= 1_024 && at < names.length - 1) [amount, at] = [amount / 1_024, at + 1]
    return `${at > 0 && amount < 10 ? amount.toFixed(1) : whole(amount)} ${names[at]}`
  })

/** UTC time: 14:07:31Z if it is today, otherwise 2026-11-02 14:07Z @param {number} atMs @param {number} nowMs */
export function clock(atMs, nowMs) {
  const [day = '', time = ''] = new Date(atMs).toISOString().split('T')
  if (new Date(nowMs).toISOString().startsWith(day)) return `${time.slice(0, 8)}Z`
  return `${day} ${time.slice(0, 5)}Z`
}

/** Distance from now: 41 s ago, in 6 min, now @param {number} atMs @param {number} nowMs */
export function relative(atMs, nowMs) {
  const awayMs = Math.abs(atMs - nowMs)
  if (awayMs < 1_000) return 'now'
  return atMs < nowMs ? `${duration(awayMs, 1)} ago` : `in ${duration(awayMs)}`
}

/** When it is tried again: in 41 s, or once that is past with the next request @param {number} atMs @param {number} nowMs */
export const tryText = (atMs, nowMs) =>
  atMs > nowMs ? relative(atMs, nowMs) : 'with the next request'

/** The greatest limits that a configuration takes, which nobody reaches. */
const greatest = perWindow(({ most }) => most)

/** All counts together @param {Readonly<Record<string, number>> | readonly number[]} counts */
export const sum = (counts) => Object.values(counts).reduce((one, other) => one + other, 0)

/** Limit of a window: 300, unlimited @param {number} value @param {import('../config/time.ts').WindowName} window */
export const limitText = (value, window) => (value < greatest[window] ? count(value) : 'unlimited')

/** 300/min, 10,000/day @param {import('../config/config.ts').Limits} limits */
export const limitsText = (limits) =>
  windows
    .map(({ name, limit }) => `${limitText(limits[limit], name)}/${name.replace('minute', 'min')}`)
    .join(', ')

/** Use and limit of a window: 12/300 @param {{ used: number, limit: number } | null} use @param {import('../config/time.ts').WindowName} window */
export const usage = (use, window) =>
  use === null ? UNKNOWN : `${count(use.used)}/${limitText(use.limit, window)}`

/** What limits clients, by which refusals are counted: the windows from the shortest on, then bans. @type {readonly (import('../config/time.ts').WindowName | 'ban')[]} */
export const refusers = [...windowNames, 'ban']
/** The same, and all other causes together. @type {readonly ((typeof refusers)[number] | 'other')[]} */
export const causes = [...refusers, 'other']

/** What there is of each window: minute 3, day 5 @param {(name: import('../config/time.ts').WindowName) => string} write */
export const windowsText = (write) => windowNames.map((name) => `${name} ${write(name)}`).join(', ')

/** CSV line (RFC 4180) without its line end. An apostrophe keeps a spreadsheet from calculating what looks like a formula. @param {readonly (string | number)[]} row */
export const csvLine = (row) =>
  row
    .map((value) => {
      const text = typeof value === 'string' ? value.replace(/^[=+@\t\r-]/, "'$&") : String(value)
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
    })
    .join(',')

/** Sentence about clients that a reload would refuse at once; '': it lowers no limit. @param {import('../config/changes/blast-radius.ts').OverNow} over */
export function overText({ of, lookedAt, count: found, clients, missing = [] }) {
  if (of === 0 && missing.length === 0) return ''
  const names = clients.slice(0, 20)
  const more = found > names.length ? `, and ${count(found - names.length)} more` : ''
  const least = lookedAt < of ? 'at least ' : ''
  const many = plural(found, 'client is at or above its', 'clients are at or above their')
  const text =
    found > 0
      ? `${least}${many} new limit now, and refused at once: ${names.join(', ')}${more}`
      : lookedAt < of || of === 0
        ? 'How many clients are above their new limits now is not known'
        : 'No client is above its new limit now'
  return missing.length === 0 ? text : `${text} (${missing.join('; ')})`
}

/** Whose figures an answer adds up, and why others are missing. @param {import('./api/live.ts').Gateways} gateways */
export function gatewaysText({ answered, silent, why }) {
  const all = answered.length + silent.length
  const some = silent.length === 0 ? '' : `${answered.length} of `
  const text = all === 1 ? 'this gateway alone' : `${some}${all} gateways`
  return [text, ...why].join('; ')
}
