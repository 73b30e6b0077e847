/** Shows what a reload would change, and reloads. */
import { call, Fault } from '../page/api.ts'
import { confirmed, toast } from '../page/dialog.ts'
import { overText, plural } from '../../insight/format.js'
import { refreshOverview } from '../page/live.ts'
import { html } from '../page/ui.ts'
import { plannedInWords } from '../../config/changes/radius-in-words.ts'
import type { ReloadOutcome } from '../../config/changes/blast-radius.ts'

type Planned = Extract<ReloadOutcome, { blastRadius: unknown }>

/** Shows what the files would change, then asks whether to take exactly that. revision: the one in force. */
export async function askToReload(revision: string, after: () => unknown) {
  const dryRun = { method: 'POST', body: { dryRun: true } }
  const { revision: next, blastRadius, over } = await call<Planned>('/api/reload', dryRun)
  const { needsRestart, counts } = blastRadius
  const { 'clients.removed': clients = 0, 'keys.revoked': keys = 0 } = counts
  const gone = [
    ...(clients > 0 ? [plural(clients, 'client')] : []),
    ...(keys > 0 ? [plural(keys, 'key')] : []),
  ]
  const warning = over === undefined ? '' : overText(over)
  return confirmed({
    title: next === revision ? `Reload ${revision}` : `Reload ${revision} to ${next}`,
    content: () => html`
      <pre class="radius" tabindex="0" role="region" aria-label="What changes">
${plannedInWords(blastRadius, { nearest: over?.clients }).join('\n')}</pre
      >
      ${next === revision && html`<p>Certificates are read again.</p>`}
      ${warning !== '' && html`<p>${over?.count === 0 ? '' : '▲ '}${warning}.</p>`}
      <p>
        Taken by all workers together or by none; no connection is closed. To go back, restore the files
        and reload.
      </p>`,
    confirm: gone.length > 0 ? `Reload: remove ${gone.join(', ')}` : 'Reload',
    busy: 'Reloading…',
    harmless: gone.length === 0,
    isReady: () => needsRestart.length === 0,
    act: async () => {
      await call('/api/reload', { method: 'POST', body: { revision: next } }).catch(explain)
      return () => {
        after()
        refreshOverview().catch(() => {})
        toast(`Revision ${next} is in force.`)
      }
    },
  })
}

function explain(fault: unknown): never {
  if (!(fault instanceof Fault) || fault.said?.status !== 409) throw fault
  const message = 'The files have changed since this was shown. Cancel, and look at them again.'
  throw new Fault('', message)
}
