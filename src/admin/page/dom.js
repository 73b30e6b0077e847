/** Creates elements. All text is set as text, never as HTML. */

/** @typedef {Node | string | null | undefined | false} Child */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean | ((event: any) => unknown) | undefined>} [attributes] on…: a listener
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag)
  set(element, attributes)
  element.append(
    ...children.filter((child) => child !== null && child !== undefined && child !== false),
  )
  return element
}

/** @param {Element} element @param {Record<string, string | number | boolean | ((event: any) => unknown) | undefined>} attributes */
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value)
    else if (value === true) element.setAttribute(name, '')
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value))
  }
}

/** @param {string} tag @param {Record<string, string | number | undefined>} attributes @param {...Node} children */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
  set(element, attributes)
  element.append(...children)
  return element
}

/** Writes the text only if it differs. @param {Node | null} node @param {string} text */
export function write(node, text) {
  if (node !== null && node.textContent !== text) node.textContent = text
}
