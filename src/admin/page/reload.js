/** Shows what a reload would change, and reloads. */
import { call, Fault } from './api.js'
import { confirmed, toast } from './dialog.js'
import { count, overText, plural } from '../../insight/format.js'
import { refreshOverview } from './live.js'
import { html } from './ui.js'

/** @import { ReloadOutcome } from '../../config/changes/reload-outcome.ts' */
/** @import { BlastRadius, ChangedLimits } from '../../config/changes/blast-radius.ts' */
/** @import { Limits } from '../../config/config.ts' */

/** @param {{ key: string, client: string }} named */
const keyText = ({ key, client }) => `${key} (${client})`
/** @param {Limits} limits */
const limitText = ({ perMinute, perDay }) => `${perMinute}/min ${perDay}/day`
/** @param {ChangedLimits} changed */
const changeText = ({ client, from, to }) => `${client} ${limitText(from)} to ${limitText(to)}`

/** @type {readonly (readonly [string, string, string, ((item: any) => string)?])[]} sign, what, path, how one is named */
const lines = [
  ['-', 'client', 'clients.removed'],
  ['+', 'client', 'clients.added'],
  ['>', 'client moved', 'clients.moved', ({ client, from, to }) => `${client} ${from} to ${to}`],
  ['v', 'limit lowered', 'limits.lowered', changeText],
  ['^', 'limit raised', 'limits.raised', changeText],
  ['-', 'key', 'keys.revoked', keyText],
  ['+', 'key', 'keys.added', keyText],
  ['~', 'key with another expiry', 'keys.changed', keyText],
  ['-', 'route', 'routes.removed'],
  ['+', 'route', 'routes.added'],
  ['~', 'route', 'routes.changed'],
  ['~', 'setting', 'settings'],
]

/** @param {BlastRadius} radius @param {string} path @returns {readonly unknown[]} */
const listAt = (radius, path) =>
  path.split('.').reduce((value, name) => value[name] ?? [], /** @type {any} */ (radius))

/** Number of items of a list that may be cut. @param {BlastRadius} radius @param {string} path */
const sizeOf = (radius, path) => radius.counts[path] ?? listAt(radius, path).length

/** @param {BlastRadius} radius */
function radiusList(radius) {
  const items = lines.flatMap(([sign, what, path, name = String]) => {
    const size = sizeOf(radius, path)
    if (size === 0) return []
    const named = listAt(radius, path)
    const rest = size > named.length ? `, and ${count(size - named.length)} more` : ''
    const words = size === 1 ? what : what.replace(/^\w+/, '$&s')
    const names = `${named.map(name).join(', ')}${rest}`
    return [html`<li><strong>${sign} ${count(size)} ${words}</strong>: ${names}</li>`]
  })
  return items.length > 0
    ? html`<ul class="radius" tabindex="0" aria-label="What changes">${items}</ul>`
    : html`<p>Nothing changes but what the files themselves hold: certificates are read again.</p>`
}

/** Shows what the files would change, then asks whether to take exactly that. @param {string} revision in force @param {() => unknown} after */
export async function askToReload(revision, after) {
  /** @type {Extract<ReloadOutcome, { blastRadius: unknown }>} */
  const outcome = await call('/api/reload', { method: 'POST', body: { dryRun: true } })
  const { revision: next, blastRadius, over } = outcome
  const { needsRestart } = blastRadius
  const clients = sizeOf(blastRadius, 'clients.removed')
  const keys = sizeOf(blastRadius, 'keys.revoked')
  const gone = [
    ...(clients > 0 ? [plural(clients, 'client')] : []),
    ...(keys > 0 ? [plural(keys, 'key')] : []),
  ]
  const warning = over === undefined ? '' : overText(over)
  return confirmed({
    title: next === revision ? `Reload ${revision}` : `Reload ${revision} to ${next}`,
    content: () => html`
      ${next === revision && html`<p>The files are those in force.</p>`}
      ${radiusList(blastRadius)}
      ${warning !== '' && html`<p>${over?.count === 0 ? '' : '▲ '}${warning}.</p>`}
      <p>
        ${
          needsRestart.length === 0
            ? 'Needs a restart: nothing.'
            : `■ Needs a restart, so that a reload is refused: ${needsRestart.join(', ')}.`
        }
      </p>
      <p>
        Taken by all workers together or by none; no connection is closed. To go back, restore the files
        and reload.
      </p>`,
    confirm: gone.length > 0 ? `Reload: remove ${gone.join(', ')}` : 'Reload',
    busy: 'Reloading…',
    harmless: gone.length === 0,
    isReady: () => needsRestart.length === 0,
    act: () => call('/api/reload', { method: 'POST', body: { revision: next } }).catch(explain),
    done: () => {
      after()
      refreshOverview().catch(() => {})
      toast(`Revision ${next} is in force.`)
    },
  })
}

/** @param {unknown} fault @returns {never} */
function explain(fault) {
  if (fault instanceof Fault && fault.status === 409)
    throw new Fault(
      '',
      'The files have changed since this was shown. Cancel, and look at what they change now.',
    )
  throw fault
}
