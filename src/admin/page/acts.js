/** Changes that an operator makes here: bans and use. Each dialog states the effect before, and how to undo it after. */
import { call } from './api.js'
import { confirmed, toast } from './dialog.js'
import { clock, count, duration } from '../../insight/format.js'
import { now, refreshOverview } from './live.js'
import { h } from './ui.js'

/** @import { Ban, BanChange } from '../../insight/api/state.ts' */
/** @import { ClientRow, ResetDone } from '../../insight/api/usage.ts' */

const LENGTHS = /** @type {const} */ ([
  ['15m', '15 minutes', 900_000],
  ['1h', '1 hour', 3_600_000],
  ['6h', '6 hours', 21_600_000],
  ['1d', '1 day', 86_400_000],
  ['7d', '7 days', 604_800_000],
  ['30d', '30 days', 2_592_000_000],
  ['400d', '400 days', 34_560_000_000],
])

/** @param {string} text @param {Node} control @param {string} [hint] */
const field = (text, control, hint) =>
  h(
    'p',
    { class: 'field' },
    h('label', {}, h('span', {}, text), control),
    hint !== undefined && h('small', {}, hint),
  )

/** @param {string} key */
const banPath = (key) => `/api/bans/${encodeURIComponent(key)}`
/** @param {string} key @param {string} length @param {string} reason @returns {Promise<BanChange>} */
const impose = (key, length, reason) =>
  call(banPath(key), { method: 'PUT', body: { for: length, reason } })
/** @param {string} key @returns {Promise<BanChange>} */
const lift = (key) => call(banPath(key), { method: 'DELETE' })

/** End of a ban by this machine's clock. asOf: the store's current time. @param {Ban} ban @param {string} asOf */
const endOf = ({ until }, asOf) => Date.now() + Date.parse(until) - Date.parse(asOf)

/** Imposes a lifted ban again for its remaining time. @param {Ban} ban @param {number} endMs */
const again = ({ key, reason }, endMs) => {
  const restSeconds = Math.max(1, Math.round((endMs - Date.now()) / 1_000))
  return impose(key, `${restSeconds}s`, reason ?? 'lifted by mistake')
}

const changed = () => void refreshOverview().catch(() => {})

/**
 * @param {string} client
 * @param {readonly string[]} keys
 * @param {() => unknown} after
 */
export function askToBan(client, keys, after) {
  const names = keys.join(', ')
  const select = h(
    'select',
    { name: 'for' },
    ...LENGTHS.map(([value, text]) => h('option', { value }, text)),
  )
  select.value = '1h'
  const end = h('p', { role: 'status' })
  const say = () => {
    const lengthMs = LENGTHS.find(([value]) => value === select.value)?.[2] ?? 0
    end.textContent = `Ends ${clock(now() + lengthMs, now())}. Refused with 429 everywhere within 1 s; the quota stays as it is.`
  }
  select.addEventListener('change', say)
  say()
  const reason = h('input', { name: 'reason', required: true, maxlength: 200, autocomplete: 'off' })
  const what = keys.length === 1 ? `key ${names}` : `${keys.length} keys`
  /** @type {Map<string, { ban: Ban, endMs: number }>} */
  const before = new Map()
  /** Restores the earlier ban, if there was one. @param {string} key */
  const undo = (key) => {
    const earlier = before.get(key)
    return earlier ? again(earlier.ban, earlier.endMs) : lift(key)
  }
  return confirmed({
    title: `Ban ${what} of ${client}`,
    content: [
      h('p', {}, keys.length === 1 ? '' : `Keys: ${names}.`),
      field('For', select),
      field('Reason (required)', reason, 'Shown to operators and in the audit log.'),
      end,
    ],
    confirm: `Ban ${what}`,
    busy: 'Banning…',
    ready: () => reason.value.trim() !== '',
    act: async () => {
      for (const key of keys) {
        const { before: ban, asOf } = await impose(key, select.value, reason.value.trim())
        if (ban !== null) before.set(key, { ban, endMs: endOf(ban, asOf) })
      }
    },
    done: () => {
      after()
      changed()
      const [label, said] =
        before.size > 0
          ? ['Back to the ban before it', 'As before']
          : ['Lift (strikes are forgotten too)', 'Lifted']
      toast(`Banned: ${names}.`, {
        label,
        act: () => void settle(Promise.all(keys.map(undo)), `${said}: ${names}.`, after),
      })
    },
  })
}

/** @param {Ban} ban @param {() => unknown} after */
export function askToLift(ban, after) {
  const { key, client, since, until, reason, by } = ban
  const leftMs = Date.parse(until) - now()
  let endMs = 0
  return confirmed({
    title: `Lift the ban of ${key}`,
    content: [
      h(
        'p',
        {},
        `Client ${client ?? 'unknown'}, banned by ${by === 'strikes' ? 'its strikes' : 'an operator'} since ${clock(Date.parse(since), now())}.`,
      ),
      h('p', {}, `Why: ${reason ?? 'not said'}.`),
      h(
        'p',
        {},
        `${duration(leftMs)} left of it. The key is let in everywhere within 1 s; its strikes are forgotten; its quota stays as it is.`,
      ),
    ],
    confirm: `Lift ban of ${key}`,
    busy: 'Lifting…',
    act: async () => {
      endMs = endOf(ban, (await lift(key)).asOf)
    },
    done: () => {
      after()
      changed()
      toast(`The ban of ${key} is lifted.`, {
        label: 'Ban again for the rest',
        act: () => void settle(again(ban, endMs), `${key} is banned again.`, after),
      })
    },
  })
}

/** Runs an act without a dialog of its own, such as an undo. @param {Promise<unknown>} act @param {string} text @param {() => unknown} after */
async function settle(act, text, after) {
  try {
    await act
    toast(text)
  } catch (error) {
    toast(`Not done: ${error instanceof Error ? error.message : String(error)}`)
  }
  after()
  changed()
}

/** @param {ClientRow} client @param {() => unknown} after */
export function askToReset({ id, minute, day }, after) {
  const select = h(
    'select',
    { name: 'window' },
    h('option', { value: 'both' }, 'minute and day'),
    h('option', { value: 'minute' }, 'minute'),
    h('option', { value: 'day' }, 'day'),
  )
  const typed = h('input', { name: 'id', autocomplete: 'off', spellcheck: 'false' })
  return confirmed({
    title: `Reset the usage of ${id}`,
    content: [
      h(
        'p',
        {},
        `Used now: minute ${count(minute?.used)}, day ${count(day?.used)}. What is chosen becomes 0: with the day, ${id} may make up to ${count(day?.used)} requests more today than its plan gives.`,
      ),
      field('Windows', select),
      field(`Type ${id} to confirm`, typed),
      h('p', {}, 'Everywhere within 1 s. This cannot be undone.'),
    ],
    confirm: `Reset usage of ${id}`,
    busy: 'Resetting…',
    ready: () => typed.value === id,
    /** @returns {Promise<ResetDone>} */
    act: () =>
      call(`/api/clients/${encodeURIComponent(id)}/reset`, {
        method: 'POST',
        body: { window: select.value },
      }),
    done: ({ before, after: now }) => {
      after()
      changed()
      toast(
        `Usage of ${id}: minute ${count(before.minute)} to ${count(now.minute)}, day ${count(before.day)} to ${count(now.day)}.`,
      )
    },
  })
}
