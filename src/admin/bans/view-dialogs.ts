/** Changes that an operator makes here: bans and use. Each dialog states the effect before, and how to undo it after. */
import { perWindow, windowNames } from '../../config/time.ts'
import { call } from '../page/api.ts'
import { confirmed, field, toast } from '../page/dialog.ts'
import { clock, count, duration, windowsText } from '../../insight/format.js'
import { changed, now } from '../page/live.ts'
import { choice, html } from '../page/ui.ts'
import type { Ban } from '../../insight/api/live.ts'
import type { BanChange } from './operations.ts'
import type { ClientRow, ResetDone } from '../clients/operations.ts'

const lengthsMs: Readonly<Record<string, number>> = {
  '15m': 900_000,
  '1h': 3_600_000,
  '6h': 21_600_000,
  '1d': 86_400_000,
  '7d': 604_800_000,
  '30d': 2_592_000_000,
  '400d': 34_560_000_000,
}
const lengths = Object.fromEntries(
  Object.entries(lengthsMs).map(([value, ms]) => [value, duration(ms)]),
)

const banPath = (key: string) => `/api/bans/${encodeURIComponent(key)}`
const impose = (key: string, length: string, reason: string) =>
  call<BanChange>(banPath(key), { method: 'PUT', body: { for: length, reason } })
const lift = (key: string) => call<BanChange>(banPath(key), { method: 'DELETE' })

/** End of a ban by this machine's clock. asOf: the store's current time. */
const endOf = ({ until }: Ban, asOf: string) => Date.now() + Date.parse(until) - Date.parse(asOf)

/** Imposes a lifted ban again for its remaining time. */
const again = ({ key, reason }: Ban, endMs: number) => {
  const restSeconds = Math.max(1, Math.round((endMs - Date.now()) / 1_000))
  return impose(key, `${restSeconds}s`, reason ?? 'lifted by mistake')
}

const effect = (length: string) => {
  const endMs = now() + (lengthsMs[length] ?? 0)
  return `Ends ${clock(endMs, now())}. Refused with 429 everywhere within 1 s; the quota stays as it is.`
}

export function askToBan(client: string, keys: readonly string[], after: () => unknown) {
  const names = keys.join(', ')
  const what = keys.length === 1 ? `key ${names}` : `${keys.length} keys`
  return confirmed({
    title: `Ban ${what} of ${client}`,
    values: { for: '1h', reason: '' },
    content: ({ for: length = '' }) => html`
      <p>${keys.length === 1 ? '' : `Keys: ${names}.`}</p>
      ${field('For', choice(lengths, '1h', { name: 'for' }))}
      ${field(
        'Reason (required)',
        html`<input name="reason" required maxlength="200" autocomplete="off" />`,
        'Shown to operators and in the audit log.',
      )}
      <p role="status">${effect(length)}</p>`,
    confirm: `Ban ${what}`,
    busy: 'Banning…',
    isReady: ({ reason = '' }) => reason.trim() !== '',
    act: async ({ for: length = '', reason = '' }) => {
      for (const key of keys) await impose(key, length, reason.trim())
      const undo = () => settle(Promise.all(keys.map(lift)), `Lifted: ${names}.`, after)
      return () => {
        changed(after)
        toast(`Banned: ${names}.`, { label: 'Lift (strikes are forgotten too)', act: undo })
      }
    },
  })
}

export function askToLift(ban: Ban, after: () => unknown) {
  const { key, client, since, until, reason, by } = ban
  const leftMs = Date.parse(until) - now()
  const whose = `Client ${client ?? 'unknown'}, banned by ${by === 'strikes' ? 'its strikes' : 'an operator'}`
  return confirmed({
    title: `Lift the ban of ${key}`,
    content: () => html`
      <p>${whose} since ${clock(Date.parse(since), now())}.</p>
      <p>Why: ${reason ?? 'not said'}.</p>
      <p>
        ${`${duration(leftMs)} left of it. The key is let in everywhere within 1 s; its strikes are forgotten; its quota stays as it is.`}
      </p>`,
    confirm: `Lift ban of ${key}`,
    busy: 'Lifting…',
    act: async () => {
      const endMs = endOf(ban, (await lift(key)).asOf)
      const undo = () => settle(again(ban, endMs), `${key} is banned again.`, after)
      return () => {
        changed(after)
        toast(`The ban of ${key} is lifted.`, { label: 'Ban again for the rest', act: undo })
      }
    },
  })
}

/** Runs an act without a dialog of its own, such as an undo. */
async function settle(act: Promise<unknown>, text: string, after: () => unknown) {
  try {
    await act
    toast(text)
  } catch (error) {
    toast(`Not done: ${error instanceof Error ? error.message : String(error)}`)
  }
  changed(after)
}

export function askToReset({ id, ...row }: ClientRow, after: () => unknown) {
  const windows = { both: windowNames.join(' and '), ...perWindow(({ name }) => name) }
  const used = windowsText((name) => count(row[name]?.used))
  const effect = `Used now: ${used}. What is chosen becomes 0: with the day, ${id} may make up to ${count(row.day?.used)} requests more today than its plan gives.`
  return confirmed({
    title: `Reset the usage of ${id}`,
    values: { window: 'both', id: '' },
    content: () => html`
      <p>${effect}</p>
      ${field('Windows', choice(windows, 'both', { name: 'window' }))}
      ${field(`Type ${id} to confirm`, html`<input name="id" autocomplete="off" spellcheck=${false} />`)}
      <p>Everywhere within 1 s. This cannot be undone.</p>`,
    confirm: `Reset usage of ${id}`,
    busy: 'Resetting…',
    isReady: (values) => values['id'] === id,
    act: async ({ window }) => {
      const path = `/api/clients/${encodeURIComponent(id)}/reset`
      const how = { method: 'POST', body: { window } }
      const { before, after: now } = await call<ResetDone>(path, how)
      return () => {
        changed(after)
        const reset = windowsText((name) => `${count(before[name])} to ${count(now[name])}`)
        toast(`Usage of ${id}: ${reset}.`)
      }
    },
  })
}
