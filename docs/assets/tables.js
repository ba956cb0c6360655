// A paragraph that links to data files (assets/NAME.js) becomes a table with a search, filters and the number of rows.
// Without this script the links lead to the data. "?search=gelu&SoC=RK3588" in the address fills in the fields
// of the page's first table.
(() => {
  const SHOWN = 100
  const make = (name, text, ...children) => {
    const element = document.createElement(name)
    if (text) element.textContent = text
    element.append(...children)
    return element
  }

  // A data file calls this; it is known by the element that loads it, since pages of the file system are fetched no other way.
  window.table = (columns, filters, rows) => { document.currentScript.loaded = { columns, filters, rows } }

  const load = address => new Promise((resolve, reject) => {
    const script = make("script")
    script.src = address
    script.onload = () => script.loaded ? resolve(script.loaded) : reject(new Error(`${address} holds no table`))
    script.onerror = () => reject(new Error(`cannot load ${address}`))
    document.head.append(script)
  })

  const values = (rows, place) => {
    const found = [...new Set(rows.flatMap(row => row[place].split(", ")))].filter(value => value)
    return found.length > 20 ? found.sort((a, b) => a.localeCompare(b)) : found
  }

  const labelled = (text, field) => make("label", "", make("span", text), field)

  const show = (paragraph, { columns, filters, rows }, given) => {
    const text = rows.map(row => row.join(" ").toLowerCase())
    const search = make("input")
    search.type = "search"
    search.value = given.get("search") || ""
    const boxes = filters.map(name => {
      const place = columns.indexOf(name)
      const box = make("select", "", new Option("all", ""), ...values(rows, place).map(value => new Option(value)))
      box.value = given.get(name) || ""
      if (box.selectedIndex < 0) box.value = ""
      return { name, place, box }
    })
    const count = make("output")
    const body = make("tbody")
    const more = make("button", "Show all rows")
    more.type = "button"
    more.className = "md-button"

    const fill = most => {
      const words = search.value.toLowerCase().split(/\s+/).filter(word => word)
      const chosen = boxes.filter(({ box }) => box.value)
      const found = rows.filter((row, number) =>
        words.every(word => text[number].includes(word)) &&
        chosen.every(({ place, box }) => row[place].split(", ").includes(box.value)))
      body.replaceChildren(...found.slice(0, most).map(row => make("tr", "", ...row.map(cell => make("td", cell)))))
      count.textContent = `${found.length} of ${rows.length} rows`
      more.hidden = found.length <= most
    }
    const again = () => fill(SHOWN)
    search.addEventListener("input", again)
    boxes.forEach(({ box }) => box.addEventListener("change", again))
    more.addEventListener("click", () => fill(Infinity))

    const fields = make("form", "", labelled("search", search), ...boxes.map(({ name, box }) => labelled(name, box)), count)
    fields.addEventListener("submit", event => event.preventDefault())
    const head = make("thead", "", make("tr", "", ...columns.map((name, place) => {
      const cell = make("th", name)
      const longest = Math.max(...rows.map(row => row[place].length))
      cell.style.minWidth = `${Math.min(longest, 32) / 2}ch` // long cells wrap, and not into columns of single words
      return cell
    })))
    const frame = make("div", "", make("div", "", make("table", "", head, body)))
    frame.className = "md-typeset__scrollwrap"
    frame.firstChild.className = "md-typeset__table"
    frame.tabIndex = 0 // arrow keys scroll it
    const all = make("div", "", fields, frame, more)
    all.className = "data-table"
    paragraph.after(all)
    again()
  }

  const dataOf = paragraph => [...paragraph.querySelectorAll('a[href*="assets/"][href$=".js"]')]
  const paragraphs = [...document.querySelectorAll("article p")].filter(paragraph => dataOf(paragraph).length)
  paragraphs.forEach(async (paragraph, number) => {
    const links = dataOf(paragraph)
    try {
      const parts = await Promise.all(links.map(link => load(link.href)))
      const given = new URLSearchParams(number ? "" : location.search)
      show(paragraph, { ...parts[0], rows: parts.flatMap(part => part.rows) }, given)
    } catch (error) {
      paragraph.append(make("em", ` The table is not shown: ${error.message}.`))
    }
  })
})()
